"""Measure everything, side by side: `python -m benchmarks.run`."""

import argparse
import os
import platform
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from benchmarks.memory import in_fresh_process
from benchmarks.row import RESULTS, Row
from tracoco.console import print_table, say
from tracoco.files import write_json

GROUPS = ("loader", "step", "metrics", "preparing", "inference", "overlap", "start", "growth")
"""Modules of this package with a function `rows`."""


def main() -> None:
    """Measure, show, and keep the results; whether targets are met is for the table to say."""
    request = _parse()
    groups = [request.only] if request.only else GROUPS
    found = [row for group in groups for row in measured(group)]
    print_table(table(found))
    out = request.out or (None if request.only else RESULTS)
    if out:
        write_json(out, {"machine": machine(), "rows": [row.to_json() for row in found]})
        say(f"written to {out}; next: python -m benchmarks.page")


def measured(group: str) -> list[Row]:
    """The rows of one group, in a process and a folder of its own."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        found = in_fresh_process(group_rows, group, Path(work))
    say(f"{group}: {time.perf_counter() - began:.0f} s")
    return found


def group_rows(group: str, work: Path) -> list[Row]:
    """Call the group by its name."""
    rows: list[Row] = import_module(f"benchmarks.{group}").rows(work)
    return rows


def machine() -> dict[str, Any]:
    """What all of it was measured on."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def processor() -> str:
    """Its name, as Linux knows it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor()


def table(rows: list[Row]) -> Table:
    """One line a row."""
    shown = Table(title="ours against what people use")
    for name in ("what", "ours", "theirs", "unit", "ratio", "target", "met"):
        shown.add_column(name, overflow="fold")
    for row in rows:
        theirs = "" if row.theirs is None else f"{row.theirs:.3g}"
        met = "yes" if row.met else "no"
        figures = (f"{row.ours:.3g}", theirs, row.unit, f"{row.ratio:.3g}", row.target, met)
        shown.add_row(f"{row.what}\n[dim]{row.against}[/dim]", *figures)
    return shown


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, help="measure one group; nothing is written")
    parser.add_argument("--out", type=Path, help=f"file of results; {RESULTS.name} if not given")
    return parser.parse_args()


if __name__ == "__main__":
    main()
