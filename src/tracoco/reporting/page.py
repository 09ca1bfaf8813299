"""The report of a run: one HTML file that needs nothing else.

It is read without scripts. A viewer of a few cases is in a frame of its own, which has one.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from jinja2 import Environment, PackageLoader, StrictUndefined

from tracoco import slices, text
from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import read_context
from tracoco.files import write_text
from tracoco.lock import only_writer
from tracoco.methods import find_row
from tracoco.reporting import charts, details, headline
from tracoco.reporting.pictures import case_pictures
from tracoco.reporting.pseudo_labels import health_charts
from tracoco.reporting.run_record import RunRecord, worst_median_best
from tracoco.reporting.tables import context_meaning, context_remarks
from tracoco.tracking.tracker import recorded_trackers
from tracoco.viewer.cases import find_cases_to_view
from tracoco.viewer.page import frame, one_file

SHOWN_CASES = 30
"""Cases of a table that are seen at once; the others are folded away."""
VIEWER_MB = 6.0
"""Largest size of the volumes of the viewer in a report."""


def write_report(run: Path, scores: Sequence[Path] = ()) -> Path:
    """Write RUN/report.html from the run's log and from all scores of its predictions.

    Args:
        run: the run's folder.
        scores: further `scores.json` files, of predictions that lie elsewhere.
    """
    path = run / "report.html"
    record = RunRecord.read(run, scores)
    with only_writer(run, "report", of="report"):  # also of a run that is being trained
        write_text(path, render(record))
        _give_to_trackers(record, path)
    return path


def _give_to_trackers(run: RunRecord, path: Path) -> None:
    """The report as an artefact: without pictures of patients, unless the settings allow them."""
    tracking = recorded_trackers(run.root)
    if not tracking:
        return
    if run.config.tracking.pictures:
        tracking.artefact(path)
    else:
        with TemporaryDirectory() as folder:
            plain = Path(folder) / path.name
            write_text(plain, render(run, pictures=False))
            tracking.artefact(plain)
    tracking.close()


def render(run: RunRecord, *, pictures: bool = True) -> str:
    """The page as text."""
    method = find_row(run.method)
    idea = method.idea if method else ""
    if run.imported_from:
        idea = f"Imported from {run.imported_from}, not trained here."
    return (
        environment()
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
            sets=[(each, case_pictures(each) if pictures else []) for each in run.scores],
            context=read_context(run.root),
            shown_cases=SHOWN_CASES,
            colours={"truth": slices.TRUTH, "prediction": slices.PREDICTION},
            details=details,
            viewer=viewer_frame(run) if pictures else "",
        )
    )


def viewer_frame(run: RunRecord) -> str:
    """A viewer of the worst, the median and the best case of each set; empty if none can be read.

    The page is in an attribute of the frame: apart from the report, and within a small size.
    """
    picked = {
        (each.name, case.case) for each in run.scores for _, case in worst_median_best(each.cases)
    }
    try:
        found = find_cases_to_view(run.root)
        cases = tuple(case for case in found.cases if (case.source, case.id) in picked)
        return frame(one_file(replace(found, cases=cases, notes=()), VIEWER_MB), "Viewer", 640)
    except UserError:
        return ""


def environment() -> Environment:
    """What turns a template of ours into a page; all text is escaped."""
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
    found.globals |= {"reliability_chart": charts.reliability_chart}
    found.globals |= {"context_meaning": context_meaning, "context_remarks": context_remarks}
    return found


def _colour_class(index: int) -> str:
    """The page has six line colours; a seventh line starts again with the first."""
    return f"c{(index - 1) % 6 + 1}" if index else "c0"
