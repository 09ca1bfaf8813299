"""What was tried before the settings were fixed: every run, also those that came to nothing."""

from collections import Counter
from pathlib import Path

from benchmarks.real.markdown import plain, settings, spread, table
from benchmarks.real.notes import with_figures
from benchmarks.real.rows import GridResults, Row
from benchmarks.real.tables import network_text, seeds_text
from tracoco.benchmark.result import over_seeds

HEAD = """## What was tried

Settings were tried on scans of the hippocampus that no table above reports on. Everything that was
run for it is here, whatever came of it.
"""


def trials_section(grids: list[GridResults], findings: str = "") -> str:
    """The tables of all grids for tuning; empty if none of them was run."""
    tried = [grid for grid in grids if grid.tried]
    if not tried:
        return ""
    learnt = f"{with_figures(findings, tried)}\n" if findings else ""
    return f"{HEAD}\n{learnt}{_counts(tried)}{''.join(map(_trial_table, tried))}"


def _counts(grids: list[GridResults]) -> str:
    """Distinct settings of each method; a run that two grids share is one trial."""
    trials = {
        (dataset, run.spec.folder(Path(), 0).name): run.spec.config(0).method.name
        for grid in grids
        for dataset, rows in grid.rows.items()
        for row in rows
        for run in row.runs
        if run.seed in row.results or run.seed in row.failed
    }
    counts = sorted(Counter(trials.values()).items())
    return f"Settings tried: {', '.join(f'{plain(name)} {number}' for name, number in counts)}.\n"


def _trial_table(results: GridResults) -> str:
    grid = results.grid
    networks = dict.fromkeys(network_text(rows[0]) for rows in results.rows.values())
    common = f"{' '.join(networks)}\n\n"
    common += f"Set for all rows: {settings(grid.set)}.\n\n" if grid.set else ""
    cells = [
        _cells(results, dataset, row)
        for dataset, rows in results.rows.items()
        for row in rows
        if row.tried
    ]
    head = ("data", "row", "method", "changed", "labelled", "seeds", "Dice, %", "remark")
    return f"\n### {plain(grid.title)}\n\n{common}{table(head, cells)}"


def _cells(results: GridResults, dataset: str, row: Row) -> list[str]:
    asked = results.grid.rows[row.name]
    changes = results.grid.datasets[dataset].set | asked.set
    done = list(row.results.values())
    remarks = [f"seed {seed}: {words}" for seed, words in row.failed.items()]
    remarks += dict.fromkeys(result.watermark for result in done if result.watermark)
    return [
        plain(dataset),
        plain(row.name),
        f"`{asked.method or row.name}`",
        settings(changes),
        str(row.labelled or "all"),
        seeds_text(row),
        spread(over_seeds(done, "dice")),
        plain("; ".join(remarks)),
    ]
