"""What was found, in words: files beside the grids, with figures out of the results."""

import re
from pathlib import Path

from benchmarks.real.markdown import spread
from benchmarks.real.rows import GridResults, Row
from tracoco.errors import UserError
from tracoco.studies.benchmark.results import over_seeds

EARLIER, SUMMARY = "earlier", "summary"
"""What results that were taken out had shown, and all that came out; others are of their grid."""


def read_notes(root: Path) -> dict[str, str]:
    """The notes of a folder by name; `{GRID/ROW/LABELS}` stands for the mean Dice of a row.

    LABELS is `all` for all, and may be left out where a grid has only one number of them.
    """
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(root.glob("*.md"))}


def with_figures(text: str, grids: list[GridResults]) -> str:
    """The text with the figures that it asks for, so that none of them can be out of date."""
    found = {
        f"{grid.name}/{row.name}{labels}": list(row.results.values())
        for grid in grids
        for rows in grid.rows.values()
        for row in rows
        for labels in ("", f"/{row.labelled or 'all'}")
        if row.results and (labels or not _several(row, rows))
    }

    def figure(asked: re.Match[str]) -> str:
        if asked["row"] not in found:
            raise UserError(f"a note asks for {asked[0]}, which has no result")
        return spread(over_seeds(found[asked["row"]], "dice"))

    return re.sub(r"\{(?P<row>[\w./-]+)\}", figure, text)


def _several(row: Row, rows: tuple[Row, ...]) -> bool:
    """Whether a name alone could mean another number of labels."""
    return any(other is not row and other.name == row.name for other in rows)
