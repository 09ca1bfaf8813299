"""`tracoco plan`: what was planned for a project, and why."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from tracoco.cli.app import AsJson, Memory, PlannedFor, ProjectFolder, app
from tracoco.console import print_json, print_table

if TYPE_CHECKING:
    from tracoco.api.plans import PlanExplanation
    from tracoco.project.update import PlanChange


@app.command()
def plan(
    project: ProjectFolder,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain why each value was chosen.")
    ] = False,
    redo: Annotated[
        bool,
        typer.Option("--redo", help="Make the plan again; the old one is kept as plan.yaml.bak."),
    ] = False,
    memory_gb: Memory = None,
    device: PlannedFor = None,
    preset: Annotated[
        str | None, typer.Option(help="Preset whose memory and time --explain estimates.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or explain the plan of a project, or make it again.

    Example: tracoco plan heart --explain
    """
    from tracoco.api.plans import plan as plan_project

    result = plan_project(
        project, explain=explain, redo=redo, memory_gb=memory_gb, device=device, preset=preset
    )
    if as_json:
        print_json(result.to_json())
        return
    if result.changes is not None:
        _print_changes(result.changes, project)
    if result.explanation:
        _print_explanation(result.explanation)
    elif result.changes is None:
        print(result.file.read_text(encoding="utf-8"), end="")


def _print_changes(changes: Sequence["PlanChange"], project: Path) -> None:
    if not changes:
        print("the plan is as it was")
        return
    for change in changes:
        print(f"{change.name}: {json.dumps(change.old)} -> {json.dumps(change.new)}")
    print(f"the plan before: {project / 'plan.yaml.bak'}")
    print(f"next: tracoco prepare {project}")


def _print_explanation(explanation: "PlanExplanation") -> None:
    table = Table("value", "", "why", "from", box=SIMPLE_HEAD)
    for reason in explanation.reasons:
        table.add_row(reason.name, reason.value, reason.why, reason.numbers)
    print_table(table)
    print("what changes with the memory of a GPU (tracoco plan PROJECT --redo --for gpu):")
    table = Table(
        *("memory, GB", "crop", "filters", "batch", "levels", "precision", "a step, GB"),
        box=SIMPLE_HEAD,
    )
    for row in explanation.growth:
        crop, batch = " x ".join(map(str, row.crop)), " + ".join(map(str, row.batch))
        cells = (row.filters, batch, row.levels, row.precision, row.step_gb)
        table.add_row(f"{row.memory_gb:g}", crop, *map(str, cells))
    print_table(table)
    for warning in explanation.warnings:
        print(f"warning: {warning}")
