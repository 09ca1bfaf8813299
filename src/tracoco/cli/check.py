"""`tracoco check`: every problem of a data set in one table, and what it takes to go on."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table
from tracoco.text import count

if TYPE_CHECKING:
    from tracoco.project.check.check import Needs, TrainingNeeds
    from tracoco.project.check.problems import Row

SHOWN = 4
"""Cases of one problem that the table names before it counts the rest; --json has all."""


@app.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Project, or folder of scans.")],
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes. Default: chosen by machine and data."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find problems in a project, or in a folder of scans before `init`.

    Exit code: 0 without problems, 1 with warnings, 2 with errors.

    Example: tracoco check heart
    """
    from tracoco.api.plans import check as check_scans

    checked = check_scans(path, workers=workers)
    if as_json:
        print_json(checked.to_json())
        raise typer.Exit(checked.exit_code)
    if checked.rows:
        print_table(_table(checked.rows))
    errors = sum(row.severity == "error" for row in checked.rows)
    warnings = len(checked.rows) - errors
    print(
        f"{count(len(checked.material.cases), 'case')}: {count(errors, 'error')}, "
        f"{count(warnings, 'warning')}"
    )
    for line in _need_lines(checked.needs, checked.training):
        print(line)
    print(f"next: {_next(path, project=checked.material.plan is not None, errors=errors)}")
    raise typer.Exit(checked.exit_code)


def _table(rows: Sequence["Row"]) -> Table:
    """The same problem of many cases is one line."""
    alike: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.severity, row.problem, row.fix].append(row)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("case", "file", "", "problem", "how to fix it"):
        table.add_column(heading, overflow="fold", vertical="top")
    for (severity, problem, fix), group in alike.items():
        cases = ", ".join(row.case for row in group[:SHOWN])
        more = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
        file = group[0].file if len(group) == 1 else ""
        cells = (cases + more, Path(file).name, severity, problem, fix)
        table.add_row(*map(Text, cells))
    return table


def _need_lines(needs: "Needs", training: "TrainingNeeds | None") -> list[str]:
    from tracoco.project.check.check import gigabytes

    disk, free = gigabytes(needs.disk_bytes), gigabytes(needs.free_bytes)
    lines = [f"disk: the store takes {disk}, {free} are free"]
    if needs.prepare_seconds is not None and needs.memory_bytes is not None:
        lines.append(
            f"prepare: about {_duration(needs.prepare_seconds)} and "
            f"{gigabytes(needs.memory_bytes)} a process, by preparing {needs.measured_on}"
        )
    if training:
        memory = training.training_memory_bytes
        taken = "" if memory is None else f" and {gigabytes(memory)}"
        lines.append(
            f"train: about {_duration(training.training_seconds)} on this machine{taken}, for "
            f"{training.training_steps} steps with the default settings; the time is estimated "
            "from a few steps on noise"
        )
    return lines


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _next(path: Path, *, project: bool, errors: int) -> str:
    if errors:
        return f"correct the errors, then `tracoco check {path}` again"
    return f"tracoco prepare {path}" if project else f"tracoco init {path} -o PROJECT"
