"""What was found, in words: files beside the grids, with figures out of the results."""

import re
from pathlib import Path

from benchmarks.real.markdown import spread
from benchmarks.real.rows import GridResults, Row
from tracoco.benchmark.result import over_seeds
from tracoco.errors import UserError

FINDINGS, SUMMARY = "findings", "summary"
"""The notes about all trials, and about all that came out; others are called as their grid."""


def read_notes(root: Path) -> dict[str, str]:
    """The notes of a folder by name; `{GRID/ROW/LABELS}` stands for the mean Dice of a row.

    LABELS may be left out where all rows of a grid have the same number, and is `all` for all.
    """
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(root.glob("*.md"))}


def with_figures(text: str, grids: list[GridResults]) -> str:
    """The text with the figures that it asks for, so that none of them can be out of date."""
    found = {
        f"{grid.name}/{row.name}{labels}": spread(over_seeds(list(row.results.values()), "dice"))
        for grid in grids
        for rows in grid.rows.values()
        for row in rows
        for labels in ("", f"/{row.labelled or 'all'}")
        if row.results and (labels or not _several(row, rows))
    }

    def figure(asked: re.Match[str]) -> str:
        if asked[1] not in found:
            raise UserError(f"a note asks for {asked[0]}, which has no result")
        return found[asked[1]]

    return re.sub(r"\{([\w./-]+)\}", figure, text)


def _several(row: Row, rows: tuple[Row, ...]) -> bool:
    """Whether a name alone could mean another number of labels."""
    return any(other is not row and other.name == row.name for other in rows)
