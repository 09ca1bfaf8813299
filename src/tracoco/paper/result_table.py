"""A table of results: the published rows, and ours beside them where there is a project."""

from tracoco.errors import UserError, did_you_mean
from tracoco.paper.contents import Shown
from tracoco.paper.fill import FilledRow, fill
from tracoco.paper.inference_cost import with_costs
from tracoco.paper.request import PaperRequest
from tracoco.paper.rows import TABLES, PaperRow, table_rows
from tracoco.paper.show import filled_json, filled_tables


def results_answer(name: str, request: PaperRequest, wanted: tuple[str, ...]) -> Shown:
    """Fill a table, or show it as it was published."""
    rows = _chosen(table_rows(name), wanted)
    title = TABLES[name]
    if not request.projects:
        shown = [FilledRow(row, reason=row.missing) for row in rows]
        data = list(dict.fromkeys(row.data for row in rows if not row.missing))
        options = " ".join(f"--project {each}=FOLDER" for each in data)
        lines: tuple[str, ...] = (f"yours beside it: tracoco paper {name} {options} --seeds 3",)
    else:
        shown, lines = _only_data(fill(rows, request)), ()
    shown = with_costs(shown, request)
    notes = _changed(request)
    return Shown(filled_tables(title, shown, notes), filled_json(name, title, shown, notes), lines)


def _changed(request: PaperRequest) -> list[str]:
    """What was asked for in place of the paper's settings, so that nobody takes ours for them."""
    changes = [f"preset {request.preset}"] if request.preset else []
    changes += [f"{request.labelled} labelled cases"] if request.labelled else []
    changes += request.changes
    return [f"ours with {', '.join(changes)}, not the paper's settings"] if changes else []


def _chosen(rows: list[PaperRow], wanted: tuple[str, ...]) -> list[PaperRow]:
    known = {row.published.row for row in rows}
    for each in wanted:
        if each not in known:
            raise UserError(f"the table has no row '{each}'; {did_you_mean(each, known)}")
    return [row for row in rows if not wanted or row.published.row in wanted]


def _only_data(rows: list[FilledRow]) -> list[FilledRow]:
    """Leave out the data sets that no project was given for, unless that would leave nothing."""
    kept = [row for row in rows if not row.reason.startswith("no --project")]
    return kept or rows
