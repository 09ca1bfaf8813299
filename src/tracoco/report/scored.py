"""Scores as they lie on disk: one set for each folder of predictions that was evaluated."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tracoco.config import checked
from tracoco.evaluation.scores import CaseScore
from tracoco.files import read_json
from tracoco.inference.notes import merged_note
from tracoco.report.score_file import PredictionNote, ScoreFile


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """All classes of one case."""

    case: str
    rows: tuple[CaseScore, ...]

    @property
    def dice(self) -> float | None:
        """Mean over the classes in which it is defined."""
        values = [row.dice for row in self.rows if row.dice is not None]
        return fmean(values) if values else None

    @property
    def missed(self) -> bool:
        """Whether a structure that is there was not found."""
        return any(row.missed for row in self.rows)


@dataclass(frozen=True, slots=True)
class ScoreSet:
    """An evaluated folder of predictions."""

    folder: Path
    file: ScoreFile
    note: PredictionNote

    @property
    def name(self) -> str:
        """The folder's name, e.g. `test`."""
        return self.folder.name

    @property
    def seconds(self) -> float | None:
        """Mean time that a prediction took, where it was noted."""
        known = [row.seconds for row in self.note.rows if row.seconds is not None]
        return fmean(known) if known else None

    @property
    def prediction(self) -> Path:
        """The label file or folder that was scored; beside the scores if the run was moved."""
        recorded = self.file.prediction
        return recorded if recorded is not None and recorded.exists() else self.folder

    @property
    def cases(self) -> list[ScoredCase]:
        """The worst first."""
        return worst_first(self.file.rows)


def read_scores(path: Path) -> ScoreSet:
    """Read a `scores.json` and the note that `predict` left beside it, if it did."""
    file = path / "scores.json" if path.is_dir() else path
    return ScoreSet(
        file.absolute().parent,
        checked(ScoreFile, read_json(file), str(file)),
        checked(PredictionNote, merged_note(file.parent), f"the note in {file.parent}"),
    )


def find_scores(run: Path, further: Sequence[Path] = ()) -> list[ScoreSet]:
    """The evaluated predictions of a run, `test` first, then those that were given besides."""
    found = sorted(run.glob("predictions/*/scores.json"), key=_test_first)
    sets = [read_scores(path) for path in (*found, *further)]
    return list({each.folder.resolve(): each for each in sets}.values())


def worst_first(rows: Sequence[CaseScore]) -> list[ScoredCase]:
    """Cases with a miss, then the others by Dice; a case without any score is last."""
    by_case: dict[str, list[CaseScore]] = {}
    for row in rows:
        by_case.setdefault(row.case, []).append(row)
    cases = [ScoredCase(case, tuple(found)) for case, found in by_case.items()]
    return sorted(cases, key=_goodness)


def worst_median_best(cases: Sequence[ScoredCase]) -> list[tuple[str, ScoredCase]]:
    """Three cases to look at, out of cases sorted from worst to best; of two medians the worse."""
    scored = [case for case in cases if case.dice is not None]
    if not scored:
        return []
    picked = {0: "worst", len(scored) - 1: "best" if len(scored) > 1 else "only case"}
    picked.setdefault((len(scored) - 1) // 2, "median")
    return [(picked[index], scored[index]) for index in sorted(picked)]


def _goodness(case: ScoredCase) -> tuple[bool, bool, float]:
    dice = case.dice
    return dice is None, not case.missed, 0.0 if dice is None else dice


def _test_first(path: Path) -> tuple[bool, str]:
    return path.parent.name != "test", path.parent.name
