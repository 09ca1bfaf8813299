"""What predicts: a run as it is or as it was tuned, several runs, or an exported model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tracoco.console import say
from tracoco.errors import UserError
from tracoco.inference.manifest import Manifest
from tracoco.inference.portable import is_model_file, load_onnx
from tracoco.inference.prediction import Prediction
from tracoco.inference.tuned import Tuned, read_tuned, tuned_file
from tracoco.project.plan import Plan

if TYPE_CHECKING:
    from tracoco.runs.folder import Weights


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
        if is_model_file(self.run):
            predictor, manifest = self._exported()
            return predictor, manifest, Tuned()
        from tracoco.inference.ensemble import Views  # noqa: PLC0415 - needs torch
        from tracoco.inference.predictor import load_with_manifest  # noqa: PLC0415 - the same

        runs = (self.run, *self.others)
        own = self.others or self.members != "first" or self.mirror
        tuned = None if own or self.plain else read_tuned(self.run)
        chosen = tuned or Tuned(members=self.members, mirror=self.mirror)
        views = Views(chosen.members, chosen.mirror)
        of_run, manifest = load_with_manifest(
            runs, self.checkpoint, self.weights, views, self.device
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
        return load_onnx(self.run, self.device)
