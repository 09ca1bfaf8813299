"""What `tracoco tune` has chosen for a run, and how it changes a label."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray
from pydantic import NonNegativeFloat

from tracoco.components import keep_largest, remove_components_below
from tracoco.files import read_json
from tracoco.inference.prediction import Prediction
from tracoco.settings import Settings, checked


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
        parts = ["both networks"] * (self.members == "both") + ["mirrored views"] * self.mirror
        return ", ".join([*parts, *([self.cleaning] if self.cleaning else [])])

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
