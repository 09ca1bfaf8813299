"""`tracoco paper gradient-analysis`: the table of gradients, published and ours."""

from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tracoco.paper.contents import Shown
from tracoco.paper.gradients import explain_gradient, explain_slips, gradient_analysis
from tracoco.paper.request import PaperRequest


def gradient_answer(request: PaperRequest) -> Shown:  # noqa: ARG001 - needs no project
    """All gradients; those of MSE are marked where the paper's slips show."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for heading in ("pseudo-label", "of the first class", "prediction", "loss"):
        table.add_column(heading)
    for heading in ("published", "ours"):
        table.add_column(heading, justify="right")
    rows = gradient_analysis()
    for row in rows:
        cells = (row.confidence, f"{row.pseudo_label:g}", f"{row.prediction:g}", row.loss)
        table.add_row(
            *cells, f"{row.published:g}{'' if row.agrees else ' *'}", f"{row.ours + 0.0:.4g}"
        )
    table.title = "Gradients of MSE, CE and CRC"
    lines = (explain_gradient(), f"* {explain_slips()}")
    values = {
        "derivative": explain_gradient(),
        "rows": [asdict(row) | {"agrees": row.agrees} for row in rows],
    }
    return Shown(table, values, lines)
