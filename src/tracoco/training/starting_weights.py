"""The weights of an earlier run as those that a new one starts from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.files import content_hash
from tracoco.methods.method import Method
from tracoco.project.plan import Plan
from tracoco.runs.build import run_strides
from tracoco.runs.folder import RunFolder, load_checkpoint, method_state

if TYPE_CHECKING:
    from tracoco.training.experiment import Experiment


@dataclass(frozen=True, slots=True)
class StartingWeights:
    """Where a run's first weights come from; its facts and its report say so."""

    run: str
    step: int
    """Steps that the earlier run had taken."""
    weights: str
    """Hash of its checkpoint `last`."""
    seen: list[str]
    """Validation and test cases of the new run whose names the earlier one has learnt from."""

    def load(self, method: Method) -> None:
        """Give a method these weights; the optimizer and the count of steps begin anew."""
        path = _checkpoint(Path(self.run))
        if content_hash(path) != self.weights:
            raise UserError(
                f"{path} has changed since this run was made from it; train into a new folder"
            )
        try:
            method.load_state_dict(method_state(load_checkpoint(path)))
        except RuntimeError as error:  # torch names every tensor that does not fit
            first = str(error).splitlines()[-1].strip()
            raise UserError(
                f"{self.run} has weights that do not fit these settings: {first} "
                "Use that run's settings of method and network, or leave out --init-from"
            ) from error


def starting_weights(
    folder: RunFolder, init_from: Path | None, experiment: "Experiment", *, resume: bool
) -> StartingWeights | None:
    """What a run starts from, or what it started from if it is resumed; None for drawn weights."""
    if resume and folder.begun:
        facts = folder.facts().get("init_from")
        recorded = StartingWeights(**facts) if facts else None
        if init_from and (recorded is None or Path(recorded.run) != init_from.absolute()):
            began = f"from {recorded.run}" if recorded else "without --init-from"
            raise UserError(
                f"{folder.root} was started {began}; resume it without --init-from, or choose "
                "another --out"
            )
        return recorded
    if init_from is None:
        return None
    earlier = RunFolder(init_from)
    _check_alike(earlier, experiment.config, experiment.plan)
    path = _checkpoint(init_from)
    known, splits = earlier.splits(), experiment.splits
    learnt = {*known.labelled, *known.unlabelled}
    seen = sorted(learnt.intersection([*splits.validation, *splits.test]))
    step = int(load_checkpoint(path)["step"])
    return StartingWeights(str(init_from.absolute()), step, content_hash(path), seen)


def _checkpoint(run: Path) -> Path:
    path = RunFolder(run).checkpoint("last")
    if not path.exists():
        raise UserError(f"{path} does not exist: that run has saved no weights to start from")
    return path


def _check_alike(earlier: RunFolder, config: Config, plan: Plan) -> None:
    """Refuse weights of another method, network or task, and say what differs."""
    there, there_plan = earlier.config(), earlier.plan()
    compared = {
        "method.name": (there.method.name, config.method.name),
        "network.name": (there.network.name, config.network.name),
        "network.filters": (there.network.filters, config.network.filters),
        "network.normalisation": (there.network.normalisation, config.network.normalisation),
        "network.decoder": (there.network.decoder, config.network.decoder),
        "network.options": (there.network.options, config.network.options),
        "network.strides": (_strides(there, there_plan), _strides(config, plan)),
        "dimensions": (there_plan.dimensions, plan.dimensions),
        "channels": (there_plan.channels, plan.channels),
        "label_values": (list(there_plan.label_values), list(plan.label_values)),
    }
    differing = [f"{key} {a} there and {b} here" for key, (a, b) in compared.items() if a != b]
    if differing:
        # What has a dot in its name is a setting, the rest comes from the plan.
        settings = [key for key, (a, b) in compared.items() if a != b and "." in key]
        words = " ".join(f"--set '{key}={json.dumps(compared[key][0])}'" for key in settings)
        copied = f", with {words}" if words else ""
        raise UserError(
            f"{earlier.root} cannot be started from: {'; '.join(differing)}. Use the same{copied}, "
            "or leave out --init-from"
        )


def _strides(config: Config, plan: Plan) -> list[list[int]]:
    """As the network has them, whether the settings say so or leave it to the plan."""
    return [list(stride) for stride in run_strides(config, plan)]
