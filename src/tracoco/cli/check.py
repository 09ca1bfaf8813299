"""`tracoco check`: every problem of a data set in one table, and what it takes to go on."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table, say
from tracoco.text import count

if TYPE_CHECKING:
    from tracoco.project.check.rows import Row
    from tracoco.project.plan import Plan

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
    from tracoco.api.projects import check as check_scans
    from tracoco.project.check.rows import noted

    checked = check_scans(path, workers=workers)
    material = checked.material
    training: dict[str, Any] = {}
    refused: list[Row] = []
    if material.plan and checked.exit_code < 2:
        with noted(refused, file=path / "plan.yaml"):
            training = _training_needs(material.plan)
    checked = replace(checked, rows=(*refused, *checked.rows))
    result = checked.to_json()
    needs = result["needs"] | training
    if as_json:
        print_json(result | {"needs": needs})
        raise typer.Exit(checked.exit_code)
    if checked.rows:
        print_table(_table(checked.rows))
    errors = sum(row.severity == "error" for row in checked.rows)
    warnings = len(checked.rows) - errors
    print(
        f"{count(len(material.cases), 'case')}: {count(errors, 'error')}, "
        f"{count(warnings, 'warning')}"
    )
    for line in _need_lines(needs):
        print(line)
    print(f"next: {_next(path, project=material.plan is not None, errors=errors)}")
    raise typer.Exit(checked.exit_code)


def _training_needs(plan: "Plan") -> dict[str, Any]:
    """Of a training with the default settings: time by a step on small crops, memory counted."""
    from tracoco.config import Config
    from tracoco.runs.build import resolved
    from tracoco.training.step_cost import step_memory, step_seconds

    config = resolved(Config(), plan)
    say("counting what a training step takes, about ten seconds")
    memory = step_memory(config, plan)
    return {
        "training_memory_bytes": memory.kept if memory else None,
        "training_seconds": step_seconds(config, plan) * config.training.length,
        "training_steps": config.training.length,
    }


def _table(rows: Sequence["Row"]) -> Table:
    """The same problem of many cases is one line."""
    alike: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.severity, row.problem, row.fix].append(row)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("case", "file", "", "problem", "way out"):
        table.add_column(heading, overflow="fold", vertical="top")
    for (severity, problem, fix), group in alike.items():
        cases = ", ".join(row.case for row in group[:SHOWN])
        more = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
        file = group[0].file if len(group) == 1 else ""
        cells = (cases + more, Path(file).name, severity, problem, fix)
        table.add_row(*map(Text, cells))
    return table


def _need_lines(needs: dict[str, Any]) -> list[str]:
    from tracoco.project.check.check import gigabytes

    disk, free = gigabytes(needs["disk_bytes"]), gigabytes(needs["free_bytes"])
    lines = [f"disk: the store takes {disk}, {free} are free"]
    if needs["prepare_seconds"] is not None:
        lines.append(
            f"prepare: about {_duration(needs['prepare_seconds'])} and "
            f"{gigabytes(needs['memory_bytes'])} a process, by preparing {needs['measured_on']}"
        )
    if "training_seconds" in needs:
        memory = needs["training_memory_bytes"]
        taken = "" if memory is None else f" and {gigabytes(memory)}"
        lines.append(
            f"train: about {_duration(needs['training_seconds'])} on this machine{taken}, for "
            f"{needs['training_steps']} steps with the default settings; the time is estimated "
            "from a few steps on noise"
        )
    return lines


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _next(path: Path, *, project: bool, errors: int) -> str:
    if errors:
        return f"mend the errors, then `tracoco check {path}` again"
    return f"tracoco prepare {path}" if project else f"tracoco init {path} -o PROJECT"
