"""The report of a run: one HTML file that needs nothing else, not even a script."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from tracoco import slices, text
from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import read_context
from tracoco.files import write_text
from tracoco.methods import find_row
from tracoco.reporting import charts, details, headline, pictures
from tracoco.reporting.pictures import read_case
from tracoco.reporting.pseudo_labels import health_charts
from tracoco.reporting.run_record import RunRecord, ScoreSet, worst_median_best
from tracoco.reporting.tables import context_meaning, context_remarks

SHOWN_CASES = 30
"""Cases of a table that are seen at once; the others are folded away."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A case to look at; where it cannot be drawn, `reason` says why."""

    rank: str
    case: str
    dice: float | None
    missed: bool
    source: str = ""
    reason: str = ""


def write_report(run: Path, scores: Sequence[Path] = ()) -> Path:
    """Write RUN/report.html from the run's log and from all scores of its predictions.

    Args:
        run: the run's folder.
        scores: further `scores.json` files, of predictions that lie elsewhere.
    """
    path = run / "report.html"
    write_text(path, render(RunRecord.read(run, scores)))
    return path


def render(run: RunRecord) -> str:
    """The page as text."""
    method = find_row(run.method)
    idea = method.idea if method else ""
    if run.imported_from:
        idea = f"Imported from {run.imported_from}, not trained here."
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            run=run,
            idea=idea,
            tiles=headline.tiles(run),
            warnings=headline.warnings(run),
            unfinished=headline.unfinished_note(run),
            losses=charts.loss_charts(run.log),
            validation=charts.validation_chart(run.log),
            rate=charts.rate_chart(run.log),
            health=health_charts(run),
            sets=[(each, case_pictures(each)) for each in run.scores],
            context=read_context(run.root),
            shown_cases=SHOWN_CASES,
            colours={"truth": slices.TRUTH, "prediction": slices.PREDICTION},
            details=details,
        )
    )


def case_pictures(scores: ScoreSet) -> list[Picture]:
    """The worst, the median and the best case."""
    return [
        _picture(scores, Picture(rank, case.case, case.dice, case.missed))
        for rank, case in worst_median_best(scores.cases)
    ]


def _picture(scores: ScoreSet, picture: Picture) -> Picture:
    try:
        return replace(picture, source=pictures.draw_case(read_case(scores, picture.case)))
    except UserError as error:
        return replace(picture, reason=str(error))


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("tracoco.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (text.number, text.signed, text.spread, text.count)
    found.filters |= {word.__name__: word for word in words} | {"colour": _colour_class}
    found.globals |= {"draw": charts.draw, "frame": charts}
    found.globals |= {"context_meaning": context_meaning, "context_remarks": context_remarks}
    return found


def _colour_class(index: int) -> str:
    """The page has six line colours; a seventh line starts again with the first."""
    return f"c{(index - 1) % 6 + 1}" if index else "c0"
