"""The weights that a new run starts from: of an earlier run, or of a file from elsewhere.

A run of the same method gives all that the method has. A run that has learnt features alone and a
weights file give what fits the networks of the new method.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.files import content_hash
from tracoco.methods import method_row
from tracoco.methods.method import Method
from tracoco.project.plan import Plan
from tracoco.runs.build import run_strides
from tracoco.runs.folder import RunFolder, load_checkpoint, method_state
from tracoco.runs.weights_origin import Kind, StartingWeights
from tracoco.training.transfer import (
    load_networks,
    read_file,
    read_rules,
    renamed,
    run_weights,
)

if TYPE_CHECKING:
    from tracoco.training.experiment import Experiment


def load_start(start: StartingWeights, method: Method) -> "StartingWeights":
    """Give a method these weights; the optimizer and the count of steps begin anew.

    They are returned with what was loaded.
    """
    path = Path(start.run) if start.kind == "file" else _checkpoint(Path(start.run))
    if not path.is_file() or content_hash(path) != start.weights:
        raise UserError(
            f"{path} has changed since this run was made from it; train into a new folder"
        )
    if start.kind == "run":
        _load_all(start, method, path)
        return start
    state = read_file(path) if start.kind == "file" else run_weights(path)
    state = renamed(state, start.rules) if start.rules else state
    return replace(start, loaded=load_networks(method, state, start.run))


def _load_all(start: StartingWeights, method: Method, path: Path) -> None:
    try:
        method.load_state_dict(method_state(load_checkpoint(path)))
    except RuntimeError as error:  # torch names every tensor that does not fit
        first = str(error).splitlines()[-1].strip()
        raise UserError(
            f"{start.run} has weights that do not fit these settings: {first} "
            "Use that run's settings of method and network, or leave out --init-from"
        ) from error


def starting_weights(
    folder: RunFolder,
    init_from: Path | None,
    experiment: "Experiment",
    *,
    resume: bool,
    init_map: Path | None = None,
) -> StartingWeights | None:
    """What a run starts from, or what it started from if it is resumed; None for drawn weights."""
    if resume and folder.begun:
        return _recorded(folder, init_from, init_map)
    if init_from is None:
        if init_map:
            raise UserError("--init-map says how weights are named; give them by --init-from FILE")
        return None
    if init_from.is_file():
        return _of_file(init_from, init_map, experiment)
    if init_map:
        raise UserError(f"--init-map is for weights files, and {init_from} is none; leave it out")
    earlier = RunFolder(init_from)
    features = not method_row(earlier.config().method.name).segments
    _check_alike(earlier, experiment.config, experiment.plan, features=features)
    path = _checkpoint(init_from)
    step = int(load_checkpoint(path)["step"])
    kind: Kind = "features" if features else "run"
    seen = _seen(earlier, experiment)
    return StartingWeights(str(init_from.absolute()), step, content_hash(path), seen, kind)


def _recorded(
    folder: RunFolder, init_from: Path | None, init_map: Path | None
) -> StartingWeights | None:
    """What a run was started from; what is given now must be the same."""
    recorded = folder.facts().init_from
    if init_from and (recorded is None or Path(recorded.run) != init_from.absolute()):
        began = f"from {recorded.run}" if recorded else "without --init-from"
        raise UserError(
            f"{folder.root} was started {began}; resume it without --init-from, or choose "
            "another --out"
        )
    if init_map and (recorded is None or recorded.rules != read_rules(init_map)):
        raise UserError(
            f"{folder.root} was started with another --init-map; resume it without, or choose "
            "another --out"
        )
    return recorded


def _of_file(path: Path, init_map: Path | None, experiment: "Experiment") -> StartingWeights:
    """A weights file from elsewhere, or the checkpoint of a run of any method."""
    rules = read_rules(init_map) if init_map else None
    state = read_file(path)  # told before anything is made
    if rules:
        renamed(state, rules)
    run = RunFolder(path.parent)
    step = int(load_checkpoint(path)["step"]) if run.begun else 0
    seen = _seen(run, experiment) if run.begun else ()
    known = content_hash(path)
    return StartingWeights(str(path.absolute()), step, known, seen, "file", rules)


def _seen(earlier: RunFolder, experiment: "Experiment") -> tuple[str, ...]:
    known, splits = earlier.splits(), experiment.splits
    learnt = {*known.labelled, *known.unlabelled}
    held_out = splits.held_out(experiment.config.data.fold)
    return tuple(sorted(learnt.intersection([*splits.validation, *splits.test, *held_out])))


def _checkpoint(run: Path) -> Path:
    path = RunFolder(run).checkpoint("last")
    if not path.exists():
        raise UserError(f"{path} does not exist: that run has saved no weights to start from")
    return path


ALSO_FOR_FEATURES = (
    *("network.name", "network.filters", "network.normalisation", "network.options"),
    "dimensions",
)
"""What must be the same for weights of a network alone; of the rest, what fits is taken."""


def _check_alike(earlier: RunFolder, config: Config, plan: Plan, *, features: bool) -> None:
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
    if features:
        compared = {key: compared[key] for key in ALSO_FOR_FEATURES}
    differing = [f"{key} {a} there and {b} here" for key, (a, b) in compared.items() if a != b]
    if differing:
        # What has a dot in its name is a setting, the rest comes from the plan.
        settings = [key for key, (a, b) in compared.items() if a != b and "." in key]
        words = " ".join(f"--set '{key}={json.dumps(compared[key][0])}'" for key in settings)
        copied = f", with {words}" if words else ""
        raise UserError(
            f"{earlier.root} cannot be started from: {'; '.join(differing)}. Use the same{copied}, "
            f"leave out --init-from, or take over its network alone: --init-from "
            f"{earlier.checkpoint('last')}"
        )


def _strides(config: Config, plan: Plan) -> list[list[int]]:
    """As the network has them, whether the settings say so or leave it to the plan."""
    return [list(stride) for stride in run_strides(config, plan)]
