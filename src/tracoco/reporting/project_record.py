"""A project as its page shows it: runs beside their baseline, structures, cases, and rounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from tracoco.evaluation.bootstrap import Interval, paired_interval
from tracoco.evaluation.scores import ClassSummary
from tracoco.inference.manifest import merged_manifest
from tracoco.inference.prediction import Uncertainty
from tracoco.labelling.rounds import Round, newest_run, read_rounds
from tracoco.project.folder import Project
from tracoco.project.splits import Splits
from tracoco.reporting.run_record import RunRecord, ScoreSet

BASELINE = "supervised"


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run and one set of its scores, or a run without scores."""

    run: RunRecord
    name: str
    """The run's folder within the project's runs."""
    scores: ScoreSet | None = None
    dice: Interval | None = None
    """Mean Dice in percent; its interval is over the cases."""
    baseline: str = ""
    """The supervised run that it is compared with; empty if there is none like it."""
    difference: Interval | None = None
    """To the baseline, of the same cases, in percent points."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A scan of the project, and what is known of it."""

    case: str
    part: str
    round: int | None
    """The round that brought its label."""
    dice: tuple[float | None, ...]
    """In percent, of each column."""
    uncertainty: Uncertainty | None


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round of labelling, and what it changed."""

    round: Round
    before: float | None
    after: float | None
    """Mean Dice in percent."""
    change: Interval | None


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """All that the page of a project shows."""

    root: Path
    splits: Splits
    runs: tuple[RunRow, ...]
    rounds: tuple[RoundRow, ...]
    cases: tuple[CaseRow, ...]
    columns: tuple[str, ...]
    """What each Dice of a case is of: run and set of scores."""
    measured_by: str
    """The run that the uncertainties are of; empty if none was asked."""

    @classmethod
    def read(cls, project: Project) -> "ProjectRecord":
        """Read a project's folder and all of its runs."""
        splits = project.load_splits()
        records = [(name, RunRecord.read(folder)) for name, folder in run_folders(project)]
        rows = tuple(run_rows(records))
        rounds = read_rounds(project)
        newest = newest_run(project)
        known = merged_manifest(newest / "predictions" / "unlabelled").rows if newest else ()
        measured = {row.case: row.uncertainty for row in known if row.uncertainty}
        scored = [row for row in rows if row.scores]
        return cls(
            root=project.root.resolve(),
            splits=splits,
            runs=rows,
            rounds=tuple(map(round_row, rounds)),
            cases=tuple(case_rows(splits, scored, rounds, measured)),
            columns=tuple(f"{row.name}, {row.scores.name}" for row in scored if row.scores),
            measured_by=newest.name if newest and measured else "",
        )

    @property
    def structures(self) -> Iterator[tuple[RunRow, ClassSummary]]:
        """The scores of each structure."""
        for row in self.runs:
            for structure in row.scores.evaluation.classes if row.scores else ():
                yield row, structure


def run_folders(project: Project) -> list[tuple[str, Path]]:
    """All runs of a project by name; those of a self-training lie in a folder of their own."""
    root = project.runs_root
    files = sorted([*root.glob("*/config.yaml"), *root.glob("*/*/config.yaml")])
    return [(str(file.parent.relative_to(root)), file.parent) for file in files]


def run_rows(records: Sequence[tuple[str, RunRecord]]) -> Iterator[RunRow]:
    """A row for each set of scores of each run; a run without scores has one row."""
    for name, run in records:
        total = run.config.training.length
        notes = [] if run.finished else [f"not finished: step {run.steps_done} of {total}"]
        notes += [run.fold] if run.fold else []
        if not run.scores:
            yield RunRow(run, name, note="; ".join([*notes, "not evaluated"]))
        for scores in run.scores:
            mark = [scores.evaluation.watermark] if scores.evaluation.watermark else []
            found = _baseline(records, run, scores)
            yield RunRow(
                run,
                name,
                scores,
                mean_interval(list(case_dice(scores).values())),
                found[0] if found else "",
                _difference(scores, found[1]) if found else None,
                "; ".join([*mark, *notes, *run.seen_before(scores)]),
            )


def _baseline(
    records: Sequence[tuple[str, RunRecord]], run: RunRecord, scores: ScoreSet
) -> tuple[str, ScoreSet] | None:
    """A supervised run with as many labels, scored on the same cases; of the same seed if it is."""
    if run.method == BASELINE:
        return None
    labelled = len(run.splits.labelled)
    alike = [
        (other.config.seed != run.config.seed, name, each)
        for name, other in records
        if other.method == BASELINE and len(other.splits.labelled) == labelled
        for each in other.scores
        if each.evaluation.case_ids == scores.evaluation.case_ids
        and each.evaluation.labels == scores.evaluation.labels
        and each.evaluation.protocol == scores.evaluation.protocol
    ]
    if not alike:
        return None
    _, name, found = min(alike, key=lambda each: each[:2])
    return name, found


def case_dice(scores: ScoreSet) -> dict[str, float]:
    """Mean Dice in percent of each case that has one."""
    return {case.case: case.dice for case in scores.cases if case.dice is not None}


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean with its interval by bootstrap over cases; None without values."""
    return paired_interval(np.array([values], dtype=np.float64)) if values else None


def _difference(scores: ScoreSet, baseline: ScoreSet) -> Interval | None:
    ours, theirs = case_dice(scores), case_dice(baseline)
    return mean_interval([ours[case] - theirs[case] for case in sorted(ours.keys() & theirs)])


def round_row(done: Round) -> RoundRow:
    """What a round changed."""
    before, after = (
        [dice for dice in (scores or {}).values() if dice is not None]
        for scores in (done.before, done.after)
    )
    return RoundRow(
        done,
        fmean(before) if before else None,
        fmean(after) if after else None,
        mean_interval(done.changes),
    )


def case_rows(
    splits: Splits,
    scored: Sequence[RunRow],
    rounds: Sequence[Round],
    measured: dict[str, Uncertainty],
) -> Iterator[CaseRow]:
    """Every case of the split."""
    part_of = {case: part for part, ids in splits.parts.items() for case in ids}
    round_of = {case: done.number for done in rounds for case in done.added}
    dice = [case_dice(row.scores) for row in scored if row.scores]
    for case in splits.ids:
        values = tuple(each.get(case) for each in dice)
        yield CaseRow(case, part_of[case], round_of.get(case), values, measured.get(case))
