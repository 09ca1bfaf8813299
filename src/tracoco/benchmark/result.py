"""What came of a run, small enough to be kept for ever."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tracoco.errors import UserError
from tracoco.files import read_json, write_json


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run on its test cases. Overlaps in percent, distances in the protocol's units."""

    dataset: str
    method: str
    labelled: int
    unlabelled: int
    seed: int
    steps: int
    checkpoint: str
    cases: int
    dice: float | None
    jaccard: float | None
    asd: float | None
    hd95: float | None
    missed: int
    units: str
    empty: str
    cct: bool
    watermark: str
    """What must be said wherever the figures are shown."""
    case_dice: dict[str, float]
    """Mean over the structures of each case, so that two runs can be compared case by case."""
    seconds: float
    """Of all steps together, validation and saving not counted."""
    seconds_a_step: float
    """Median of the run."""
    seconds_a_case: float
    """Median of the predictions."""
    versions: dict[str, Any]
    peak_mb: float | None = None
    """The most memory that the training held; None where the system does not tell."""


def write_result(path: Path, result: RunResult) -> None:
    """Keep a result."""
    write_json(path, asdict(result))


def read_result(path: Path) -> RunResult:
    """Read a result that was kept."""
    try:
        return RunResult(**read_json(path))
    except TypeError as error:
        raise UserError(f"{path} is of another version; delete it and run again") from error


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean over seeds and its spread (n - 1), which a single seed does not have."""

    mean: float
    sd: float | None
    count: int


def over_seeds(results: Sequence[object], figure: str) -> Spread | None:
    """Mean and spread of one attribute over the results that have it; None if none has."""
    values = [value for each in results if (value := getattr(each, figure)) is not None]
    if not values:
        return None
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))
