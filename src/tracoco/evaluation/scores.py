"""Scores as types: of a class in a case, of a case, of a table's row, and of a whole evaluation.

In each of them overlaps (Dice, Jaccard, NSD) and volume errors are percentages, distances have the
unit of the protocol, and None is undefined. Files and tables show the same numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, get_args

from tracoco.errors import UserError, did_you_mean
from tracoco.evaluation.calibration import Calibration
from tracoco.files import read_json
from tracoco.settings import checked
from tracoco.text import html_table, number, spread

Units = Literal["mm", "voxel"]
Empty = Literal["missed", "zero"]


@dataclass(frozen=True, slots=True)
class Protocol:
    """Conventions of a score. Papers differ in them, so they stand beside every table."""

    units: Units = "mm"
    """Unit of distances. Papers on these data sets report voxels, whatever a voxel's size is."""
    empty: Empty = "missed"
    """Score of a structure that is empty in prediction or truth.

    missed: overlaps are 0 and distances undefined; the structure is counted as missed or spurious.
    Where both are empty nothing was asked: no score, counted as absent.
    zero: the papers' convention, 0 for overlaps and for distances alike, which flatters distances.
    """
    tolerance: float = 2.0
    """Distance within which a surface is right, for the normalised surface Dice; in `units`."""
    cct: bool = False
    """Whether components too small to be believed are removed from a prediction before it is scored
    (connected-component thresholding)."""

    def __post_init__(self) -> None:
        # A misspelt convention would otherwise be the other one, and nobody would see it.
        for key, value, known in (
            ("units", self.units, get_args(Units)),
            ("empty", self.empty, get_args(Empty)),
        ):
            if value not in known:
                raise UserError(f"{key} '{value}' does not exist; {did_you_mean(value, known)}")
        if not self.tolerance >= 0:
            raise UserError(f"tolerance is {self.tolerance}; it must be 0 or more {self.units}")


PROTOCOLS = {"paper": Protocol(units="voxel", empty="zero")}
"""paper: what the tables of TraCoCo and of the works around it follow."""


def chosen_protocol(
    name: str | None = None,
    units: Units | None = None,
    empty: Empty | None = None,
    *,
    cct: bool = False,
) -> Protocol:
    """A protocol by name or by its parts; a part that contradicts the name is an error."""
    if name is None:
        return Protocol(units=units or "mm", empty=empty or "missed", cct=cct)
    if name not in PROTOCOLS:
        raise UserError(f"protocol '{name}' does not exist; {did_you_mean(name, PROTOCOLS)}")
    known = PROTOCOLS[name]
    for part, given, meant in (("units", units, known.units), ("empty", empty, known.empty)):
        if given not in {None, meant}:
            raise UserError(
                f"--protocol {name} means --{part} {meant}, but --{part} {given} is given too; "
                "leave one of them out"
            )
    return Protocol(units=known.units, empty=known.empty, cct=cct)


@dataclass(frozen=True, slots=True)
class CaseScore:
    """One class of one case. Overlaps and the volume error in percent; None is undefined."""

    case: str
    label: int
    name: str
    dice: float | None = None
    jaccard: float | None = None
    asd: float | None = None
    assd: float | None = None
    hd95: float | None = None
    nsd: float | None = None
    volume_error: float | None = None
    """Signed: 100 * (predicted - true) / true."""
    missed: bool = False
    """The truth has the structure, the prediction does not."""
    spurious: bool = False
    """The prediction has a structure that the truth does not have."""
    absent: bool = False
    """Neither has it."""
    prediction_ml: float | None = None
    truth_ml: float | None = None
    """Volumes, whatever the unit of distances; undefined for an image, which has none."""
    undrawn: int = 0
    """Voxels of the case that nobody has drawn in the truth: they count in no value of the row."""


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """All classes of one case."""

    case: str
    rows: tuple[CaseScore, ...]

    @property
    def dice(self) -> float | None:
        """Mean in percent over the classes in which it is defined."""
        values = [row.dice for row in self.rows if row.dice is not None]
        return fmean(values) if values else None

    @property
    def missed(self) -> bool:
        """Whether a structure that is there was not found."""
        return any(row.missed for row in self.rows)


def worst_first(rows: Sequence[CaseScore]) -> list[ScoredCase]:
    """Cases with a missed structure, then the others by Dice; a case without any score is last."""
    by_case: dict[str, list[CaseScore]] = {}
    for row in rows:
        by_case.setdefault(row.case, []).append(row)
    cases = [ScoredCase(case, tuple(found)) for case, found in by_case.items()]
    return sorted(cases, key=_goodness)


def _goodness(case: ScoredCase) -> tuple[bool, bool, float]:
    dice = case.dice
    return dice is None, not case.missed, 0.0 if dice is None else dice


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of a table. Overlaps and the volume error in percent; None where nothing is defined.

    Each mean is over the cases in which the value is defined, and there over the classes in which
    it is. Distances say nothing about missed and spurious structures: read those counts with them.
    """

    cases: int
    dice: float | None
    dice_sd: float | None
    """Spread of the cases' Dice (n - 1); undefined for a single case."""
    jaccard: float | None
    asd: float | None
    assd: float | None
    hd95: float | None
    nsd: float | None
    volume_error: float | None
    """Without sign: a fifth too large in one case and too small in the next is 20, not 0."""
    missed: int
    spurious: int
    absent: int
    """Structures, one for each case and class."""


@dataclass(frozen=True, slots=True)
class ClassSummary(Summary):
    """The row of one class."""

    label: int
    name: str


def summarise(scores: Sequence[CaseScore]) -> Summary:
    """The row of these scores, e.g. of all classes or of one."""
    dices = _case_means(scores, "dice")
    return Summary(
        cases=len({score.case for score in scores}),
        dice=_mean(dices),
        dice_sd=stdev(dices) if len(dices) > 1 else None,
        jaccard=_mean(_case_means(scores, "jaccard")),
        asd=_mean(_case_means(scores, "asd")),
        assd=_mean(_case_means(scores, "assd")),
        hd95=_mean(_case_means(scores, "hd95")),
        nsd=_mean(_case_means(scores, "nsd")),
        volume_error=_mean(_case_means(scores, "volume_error")),
        missed=sum(score.missed for score in scores),
        spurious=sum(score.spurious for score in scores),
        absent=sum(score.absent for score in scores),
    )


def _case_means(scores: Sequence[CaseScore], metric: str) -> list[float]:
    """Mean magnitude over the classes of each case; only the volume error has a sign to lose."""
    by_case: dict[str, list[float]] = {}
    for score in scores:
        value: float | None = getattr(score, metric)
        if value is not None:
            by_case.setdefault(score.case, []).append(abs(value))
    return [fmean(values) for values in by_case.values()]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of all cases and classes, the conventions that they follow, and what was scored."""

    rows: tuple[CaseScore, ...]
    protocol: Protocol
    prediction: Path | None = None
    truth: Path | None = None
    watermark: str = ""
    """What must be said wherever these scores are shown; mostly nothing."""
    predicted_with_cct: bool = False
    """Whether small components were removed already when the predictions were made."""
    calibration: Calibration | None = None
    """Of the probability maps beside the predictions, where there are any."""

    @property
    def summary(self) -> Summary:
        """One row for everything."""
        return summarise(self.rows)

    @property
    def classes(self) -> tuple[ClassSummary, ...]:
        """One row for each class."""
        keys = dict.fromkeys((row.label, row.name) for row in self.rows)
        return tuple(self._class_summary(label, name) for label, name in keys)

    def _class_summary(self, label: int, name: str) -> ClassSummary:
        row = summarise([row for row in self.rows if (row.label, row.name) == (label, name)])
        return ClassSummary(label=label, name=name, **asdict(row))

    @property
    def cases(self) -> list[ScoredCase]:
        """The worst first."""
        return worst_first(self.rows)

    @property
    def case_ids(self) -> frozenset[str]:
        """The cases that were scored."""
        return frozenset(row.case for row in self.rows)

    @property
    def labels(self) -> frozenset[int]:
        """The class values that were scored."""
        return frozenset(row.label for row in self.rows)

    @property
    def empty_as_zero(self) -> str:
        """That distances of empty masks are 0, in words; empty where they are undefined."""
        return "empty masks count as zero" if self.protocol.empty == "zero" else ""

    @property
    def skipped(self) -> str:
        """How many cases were scored in part, in words; empty where all were drawn everywhere."""
        partly = len({row.case for row in self.rows if row.undrawn})
        all_ = len(self.case_ids)
        return f"voxels that are not drawn count nowhere: {partly} of {all_} cases" * bool(partly)

    @property
    def cleaning(self) -> str:
        """When small components were removed from what was scored, in words; empty if never."""
        moments = {
            "when predicting": self.predicted_with_cct,
            "before scoring": self.protocol.cct,
        }
        when = " and ".join(moment for moment, true in moments.items() if true)
        return f"small components were removed {when} (--cct)" if when else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What must be known of all scores, one sentence each."""
        found = (self.empty_as_zero, self.cleaning, self.skipped)
        return tuple(each for each in found if each)

    def _repr_html_(self) -> str:
        """For a notebook: a row for each class and one for all, and what must be said of them."""
        unit = self.protocol.units
        columns = ("class", "cases", "Dice %", "Jaccard %", f"ASD {unit}", f"HD95 {unit}", "missed")
        rows: list[tuple[str, Summary]] = [(row.name, row) for row in self.classes]
        rows += [("all", self.summary)] if len(rows) > 1 else []
        cells = [
            (
                name,
                row.cases,
                spread(row.dice, row.dice_sd),
                number(row.jaccard),
                *(number(distance, 2) for distance in (row.asd, row.hd95)),
                row.missed,
            )
            for name, row in rows
        ]
        notes = [each for each in (self.watermark, *self.remarks) if each]
        return html_table(columns, cells) + "".join(f"<div>{escape(line)}</div>" for line in notes)

    def to_json(self) -> dict[str, Any]:
        """The content of `scores.json`."""
        return {
            "prediction": None if self.prediction is None else str(self.prediction),
            "truth": None if self.truth is None else str(self.truth),
            "watermark": self.watermark,
            "predicted_with_cct": self.predicted_with_cct,
            "protocol": asdict(self.protocol),
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "ece": None if self.calibration is None else self.calibration.ece,
            "summary": asdict(self.summary),
            "classes": [
                {"label": row.label, "name": row.name} | asdict(row) for row in self.classes
            ],
            "rows": [asdict(row) for row in self.rows],
        }


def read_evaluation(file: Path) -> Evaluation:
    """Read a `scores.json`, or say what is wrong with it; means are taken anew from its rows."""
    return checked(Evaluation, read_json(file), str(file))
