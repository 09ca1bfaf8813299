"""Evaluated runs side by side: one row for each, and what makes a row unlike the first."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tracoco.reporting.run_record import RunRecord, ScoreSet
from tracoco.text import count


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One line of a comparison. Overlaps in percent, distances in `units`; None is unknown."""

    run: str
    method: str
    labelled: int
    unlabelled: int
    steps: int
    """Steps that are done."""
    seed: int
    test_set: str | None = None
    checkpoint: str | None = None
    cases: int | None = None
    dice: float | None = None
    dice_sd: float | None = None
    jaccard: float | None = None
    asd: float | None = None
    hd95: float | None = None
    missed: int | None = None
    units: str | None = None
    recipe: str | None = None
    """Where the settings of the training come from: `common`, `released` or `paper`."""
    note: str = ""
    """What must be known before the row is compared with the first one."""
    seconds: float | None = None
    """Mean time that a prediction took."""

    def to_json(self) -> dict[str, Any]:
        """Plain values by the names of the fields."""
        return asdict(self)


def compare_runs(runs: Sequence[Path]) -> list[ComparisonRow]:
    """Rows in the order of the runs; a run without scores has a row without scores."""
    records = [(str(run), RunRecord.read(run)) for run in runs]
    first = next((scores for _, record in records for scores in record.scores), None)
    return [row for name, record in records for row in _rows(name, record, first)]


def _rows(name: str, run: RunRecord, first: ScoreSet | None) -> Iterator[ComparisonRow]:
    total = run.config.training.length
    about = [] if run.finished else [f"not finished: step {run.steps_done} of {total}"]
    about += [run.fold] if run.fold else []
    about += [f"imported from {run.imported_from}"] if run.imported_from else []
    about += [f"{count(run.hidden_labels, 'label')} hidden"] if run.hidden_labels else []
    row = ComparisonRow(
        run=name,
        method=run.method,
        labelled=len(run.splits.labelled),
        unlabelled=len(run.unlabelled),
        steps=run.steps_done,
        seed=run.config.seed,
        recipe=None if run.imported_from else run.config.recipe,
    )
    if first is None or not run.scores:
        yield replace(row, note="; ".join([*about, "not evaluated"]))
        return
    for scores in run.scores:
        watermark = scores.evaluation.watermark
        differences = [*_differences(scores, first), *run.seen_before(scores)]
        notes = [*([watermark] if watermark else []), *about, *differences]
        yield replace(_scored(row, scores), note="; ".join(notes))


def _scored(row: ComparisonRow, scores: ScoreSet) -> ComparisonRow:
    summary = scores.evaluation.summary
    return replace(
        row,
        test_set=scores.name,
        checkpoint=scores.manifest.checkpoint or None,
        cases=summary.cases,
        dice=summary.dice,
        dice_sd=summary.dice_sd,
        jaccard=summary.jaccard,
        asd=summary.asd,
        hd95=summary.hd95,
        missed=summary.missed,
        units=scores.evaluation.protocol.units,
        seconds=scores.seconds,
    )


def _differences(scores: ScoreSet, first: ScoreSet) -> Iterator[str]:
    """What the scores do not have in common with the first ones, and conventions that flatter."""
    own, other = scores.evaluation, first.evaluation
    if scores.manifest.variant:
        yield f"predicted with: {scores.manifest.variant}"
    shared = len(own.case_ids & other.case_ids)
    if own.case_ids != other.case_ids:
        yield f"other cases than the first row ({shared} in common)"
    if own.labels != other.labels:
        yield "other classes than the first row"
    if own.protocol.units != other.protocol.units:
        yield f"distances in {own.protocol.units}, not {other.protocol.units}"
    if own.protocol.empty != other.protocol.empty:
        yield f"empty masks count as {own.protocol.empty}, not {other.protocol.empty}"
    elif own.empty_as_zero:
        yield own.empty_as_zero
    if own.skipped:
        yield own.skipped
    if own.cleaning:
        yield own.cleaning
    elif other.cleaning:
        yield "small components were not removed"
