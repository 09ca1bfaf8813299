"""What `evaluate` and `predict` leave in a folder of predictions, as it is read back."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from tracoco.evaluation.scores import CaseScore, Protocol
from tracoco.evaluation.summary import Summary


@dataclass(frozen=True, slots=True)
class ClassSummary(Summary):
    """The row of one class."""

    label: int
    name: str


class ScoreFile(BaseModel):
    """`scores.json`: overlaps and volume errors are percent everywhere."""

    protocol: Protocol
    summary: Summary
    classes: tuple[ClassSummary, ...]
    rows: tuple[CaseScore, ...]
    prediction: Path | None = None
    truth: Path | None = None
    watermark: str = ""
    """What must be said wherever these scores are shown; mostly nothing."""
    predicted_with_cct: bool = False
    """Whether small components were removed already when the predictions were made."""

    @property
    def empty_as_zero(self) -> str:
        """That distances of empty masks are 0, in words; empty where they are undefined."""
        return "empty masks count as zero" if self.protocol.empty == "zero" else ""

    @property
    def cleaning(self) -> str:
        """When small components were removed from what was scored, in words; empty if never."""
        moments = {
            "when predicting": self.predicted_with_cct,
            "before scoring": self.protocol.cct,
        }
        told = " and ".join(moment for moment, true in moments.items() if true)
        return f"small components were removed {told} (--cct)" if told else ""

    @property
    def case_ids(self) -> frozenset[str]:
        """The cases that were scored."""
        return frozenset(row.case for row in self.rows)

    @property
    def labels(self) -> frozenset[int]:
        """The class values that were scored."""
        return frozenset(row.label for row in self.rows)


class PredictedRow(BaseModel):
    """One scan, and the file that its labels went to."""

    case: str
    images: tuple[Path, ...]
    prediction: Path
    seconds: float | None = None


class PredictionNote(BaseModel):
    """`predictions.json`: what was predicted from what, by whom."""

    run: str = ""
    checkpoint: str = ""
    rows: tuple[PredictedRow, ...] = ()
