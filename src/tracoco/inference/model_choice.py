"""What predicts: a run as it is or as it was tuned, several runs, or an exported model.

What `tracoco tune` has chosen for a run, and how it changes a label, is here too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from numpy.typing import NDArray
from pydantic import NonNegativeFloat

from tracoco.components import keep_largest, remove_components_below
from tracoco.console import say
from tracoco.errors import UserError, check_choice
from tracoco.files import read_json
from tracoco.inference.manifest import Manifest
from tracoco.inference.prediction import Prediction
from tracoco.project.plan import Plan
from tracoco.settings import Settings, checked

if TYPE_CHECKING:
    from tracoco.methods.method import Method
    from tracoco.runs.folder import Weights

MODEL_SUFFIX = ".onnx"
"""Of an exported model, in the place of a run."""
Members = Literal["first", "both"]
"""first: the network that predicts; both: the mean of two networks that were trained together."""


@dataclass(frozen=True, slots=True)
class Views:
    """Which networks of a run predict, and which mirrored views of a crop they see."""

    members: Members = "first"
    mirror: bool = False

    def check(self, method: "Method", plan: Plan) -> None:
        """Refuse what the method or the plan does not have."""
        check_choice("members", self.members, get_args(Members))
        if self.members == "both" and not method.has_members:
            raise UserError(
                "--members both needs two networks that were trained together, and this run's "
                "method has one; leave it out"
            )
        if self.mirror and not mirrored_dimensions(plan):
            raise UserError(
                "--mirror: the plan of this run has no mirror_axes, so a mirrored scan may show "
                "what no scan does; leave it out, or name the axes in plan.yaml and train again"
            )

    @property
    def text(self) -> str:
        """What differs from one pass of one network, in words; empty if nothing does."""
        parts = ["both networks"] * (self.members == "both") + ["mirrored views"] * self.mirror
        return ", ".join(parts)


PLAIN = Views()
"""One pass of the network that predicts."""


def mirrored_dimensions(plan: Plan) -> list[int]:
    """Dimensions of crops [B, C, ...] along which they may be mirrored."""
    return [axis + plan.dimensions - 1 for axis in plan.mirror_axes]


class Tuned(Settings):
    """Options of a prediction that were chosen on validation cases."""

    members: Literal["first", "both"] = "first"
    mirror: bool = False
    largest: tuple[int, ...] = ()
    """Label values of which only the largest component is kept."""
    smallest_ml: NonNegativeFloat = 0.0
    """Components of less are removed, but for the largest of each class."""
    checkpoint: str = "last"
    weights: str = ""
    """SHA-256 of the checkpoint that this was chosen with."""
    averaged: bool = False

    @property
    def text(self) -> str:
        """The choice in words; empty if nothing differs from a plain prediction."""
        return ", ".join(filter(None, (self.views.text, self.cleaning)))

    @property
    def views(self) -> Views:
        """The networks and the views that are averaged."""
        return Views(self.members, self.mirror)

    @property
    def cleaning(self) -> str:
        """What is done to labels, in words."""
        parts = [f"largest component of label {value}" for value in self.largest]
        parts += [f"components of at least {self.smallest_ml:g} ml"] * (self.smallest_ml > 0)
        return ", ".join(parts)

    def cleaned(self, label: NDArray[Any], spacing_mm: Sequence[float]) -> NDArray[Any]:
        """The label without the components that the choice removes."""
        if self.largest:
            label = keep_largest(label, self.largest)
        if self.smallest_ml:
            label = remove_components_below(label, self.smallest_ml * 1000 / math.prod(spacing_mm))
        return label

    def clean(self, prediction: Prediction) -> Prediction:
        """The same for the prediction of a scan."""
        if not self.cleaning or prediction.scan is None:
            return prediction
        label = self.cleaned(prediction.label, prediction.scan.spacing_mm)
        return replace(prediction, label=label)


def tuned_file(run: Path) -> Path:
    """Where the choice stands in a run's folder."""
    return run / "tuned.json"


def read_tuned(run: Path) -> Tuned | None:
    """The choice of a run; None if nothing was recorded."""
    path = tuned_file(run)
    if not path.is_file():
        return None
    values = read_json(path)
    return checked(Tuned, values.get("chosen", {}), str(path))


class ScanPredictor(Protocol):
    """What a prediction is made with: a run, several of them, or an exported model."""

    @property
    def plan(self) -> Plan:
        """How scans are brought to the network."""

    def check_maps(self, maps: Sequence[str], /) -> None:
        """Refuse a map that cannot be given."""

    def __call__(
        self, scan: Any, /, *, maps: Sequence[str], folder: Path | None, uncertainty: bool
    ) -> Prediction:
        """Predict a scan."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What predicts: a run, further runs, their weights, networks and mirrored views."""

    run: Path
    others: tuple[Path, ...] = ()
    """Runs whose probabilities are averaged with those of the first."""
    checkpoint: str = "last"
    weights: "Weights" = "averaged"
    members: Literal["first", "both"] = "first"
    mirror: bool = False
    plain: bool = False
    """Whether options that `tracoco tune` has recorded in the run are left out."""
    device: str = "auto"

    def load(self) -> tuple[ScanPredictor, Manifest, Tuned]:
        """The predictor, its manifest without a case, and how its labels are cleaned."""
        if self.run.suffix.lower() == MODEL_SUFFIX:
            predictor, manifest = self._exported()
            return predictor, manifest, Tuned()
        from tracoco.inference.predictor import load_with_manifest  # noqa: PLC0415 - the same

        runs = (self.run, *self.others)
        own = self.others or self.members != "first" or self.mirror
        tuned = None if own or self.plain else read_tuned(self.run)
        chosen = tuned or Tuned(members=self.members, mirror=self.mirror)
        of_run, manifest = load_with_manifest(
            runs, self.checkpoint, self.weights, chosen.views, self.device
        )
        if tuned and (tuned.weights, tuned.averaged) != (manifest.weights, manifest.averaged):
            say(f"warning: {tuned_file(self.run)} was chosen with other weights and is not used")
            return replace(self, plain=True).load()
        variant = "; ".join(part for part in (manifest.variant, chosen.cleaning) if part)
        return of_run, replace(manifest, variant=variant), chosen

    def _exported(self) -> tuple[ScanPredictor, Manifest]:
        given = (self.checkpoint, self.weights, self.others, self.members, self.mirror)
        if given != ("last", "averaged", (), "first", False):
            raise UserError(
                f"{self.run} is one network with the weights that it was exported with; leave "
                "--checkpoint, --weights, --with, --members and --mirror out, or give a run"
            )
        from tracoco.inference.portable import load_onnx  # noqa: PLC0415 - for such models alone

        return load_onnx(self.run, self.device)
