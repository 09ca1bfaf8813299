"""What was found, in words: files beside the grids, with figures out of the results."""

import re
from pathlib import Path

from benchmarks.real.markdown import spread
from benchmarks.real.rows import GridResults
from tracoco.benchmark.result import over_seeds
from tracoco.errors import UserError

FINDINGS = "findings"
"""The note about all trials; any other is called as the grid that it is about."""


def read_notes(root: Path) -> dict[str, str]:
    """The notes of a folder by name; `{GRID/ROW}` in them stands for the mean Dice of a row."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(root.glob("*.md"))}


def with_figures(text: str, grids: list[GridResults]) -> str:
    """The text with the figures that it asks for, so that none of them can be out of date."""
    found = {
        f"{grid.name}/{row.name}": spread(over_seeds(list(row.results.values()), "dice"))
        for grid in grids
        for rows in grid.rows.values()
        for row in rows
        if row.results
    }

    def figure(asked: re.Match[str]) -> str:
        if asked[1] not in found:
            raise UserError(f"a note asks for {asked[0]}, which has no result")
        return found[asked[1]]

    return re.sub(r"\{([\w./-]+)\}", figure, text)
