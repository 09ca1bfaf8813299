"""Give more seeds to the best rows of a grid of all methods.

    python -m benchmarks.real.more_seeds la-methods

Once every row has its first seed, the ten best and TraCoCo get seeds 0, 1 and 2. The choice is
written into the grid's file, so that it is recorded and the next `make real` runs it. A grid whose
rows have seeds of their own already stays as it is.
"""

import re
import sys
from pathlib import Path

from benchmarks.real.collect import ROOT
from benchmarks.real.rows import GridResults, read_grids
from tracoco.console import say
from tracoco.errors import UserError
from tracoco.files import write_text
from tracoco.studies.benchmark.results import over_seeds

BEST, ALWAYS = 10, ("supervised", "tracoco")
SEEDS = "seeds: [0, 1, 2]"


def best_rows(grid: GridResults) -> list[str]:
    """The rows of highest Dice with their first seed, and those that every table needs."""
    rows = [row for found in grid.rows.values() for row in found]
    open_rows = [row.name for row in rows if not row.tried]
    if open_rows:
        raise UserError(f"{grid.name}: not run yet: {', '.join(open_rows)}")
    dice = {r.name: d.mean for r in rows if (d := over_seeds(list(r.results.values()), "dice"))}
    best = sorted(dice, key=lambda name: -dice[name])[:BEST]
    return [row.name for row in rows if row.name in {*best, *ALWAYS}]


def with_seeds(text: str, rows: list[str]) -> str:
    """The grid's file with more seeds for these rows."""
    for name in rows:
        short, long = rf"^  {re.escape(name)}: {{}}$", rf"^  {re.escape(name)}:$"
        text, found = re.subn(short, f"  {name}: {{{SEEDS}}}", text, flags=re.MULTILINE)
        if not found:
            text, found = re.subn(long, f"  {name}:\n    {SEEDS}", text, flags=re.MULTILINE)
        if not found:
            raise UserError(f"the row '{name}' is not a line of its own; write its seeds by hand")
    return text


def choose(root: Path, name: str) -> list[str]:
    """Write the choice into a grid's file; nothing if there is one already."""
    grid = next(each for each in read_grids(root) if each.name == name)
    if any(row.seeds for row in grid.grid.rows.values()):
        return []
    rows, path = best_rows(grid), root / f"{name}.yaml"
    write_text(path, with_seeds(path.read_text(encoding="utf-8"), rows))
    return rows


def main() -> None:
    """Choose for the grids that are named."""
    try:
        for name in sys.argv[1:]:
            chosen = choose(ROOT, name)
            say(f"{name}: {', '.join(chosen) or 'the choice was made before'}")
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
