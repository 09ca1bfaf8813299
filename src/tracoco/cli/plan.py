"""`tracoco plan`: what was planned for a project, and why."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from tracoco.cli.app import AsJson, Memory, PlannedFor, ProjectFolder, app
from tracoco.console import print_json, print_table, say

if TYPE_CHECKING:
    from tracoco.project.folder import Project
    from tracoco.project.machine import Machine
    from tracoco.project.plan import Plan


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
    from tracoco.project.folder import Project
    from tracoco.project.machine import find_machine
    from tracoco.project.update import redo_plan

    opened = Project(project)
    result: dict[str, Any] = {}
    if redo:
        result["changes"] = [
            {"name": name, "old": old, "new": new}
            for name, old, new in redo_plan(opened, memory_gb, device)
        ]
    values = opened.load_plan()
    result["plan"] = values.model_dump(mode="json")
    if explain:
        machine = find_machine(device, memory_gb)
        result |= _explanation(opened, machine)
        result["reasons"] += [_step_memory(values, preset), _training_time(values, preset)]
        result["growth"] = _growth(opened)
    if as_json:
        print_json(result)
        return
    if redo:
        _print_changes(result["changes"], project)
    if explain:
        _print_explanation(result)
    elif not redo:
        print(opened.plan_file.read_text(encoding="utf-8"), end="")


def _explanation(opened: "Project", machine: "Machine") -> dict[str, Any]:
    from dataclasses import asdict

    from tracoco.project.explain import explain_plan
    from tracoco.project.fingerprint import read_fingerprint

    fingerprint, values = read_fingerprint(opened.fingerprint_file), opened.load_plan()
    explanation = explain_plan(values, fingerprint, machine.memory_gb, machine.device)
    reasons = [asdict(reason) for reason in explanation.reasons]
    return {
        "reasons": [*reasons, *_networks(values, machine.budget_gb)],
        "warnings": list(explanation.warnings),
    }


def _networks(values: "Plan", budget: float) -> list[dict[str, str]]:
    """Which networks can be trained on the planned crop; a run chooses one with network.name."""
    from tracoco.geometry import total_stride
    from tracoco.networks import NETWORKS
    from tracoco.project.machine import KEPT_MAPS, passes, plan_gb

    rows = []
    for name, facts in NETWORKS.items():
        if values.dimensions not in facts.builders or name not in KEPT_MAPS:
            continue
        own = facts.own_strides(values.dimensions)
        strides = (facts.strided and values.strides) or own
        needed = plan_gb(values, name, strides)
        steps = total_stride(strides)
        halves = not any(n % step for n, step in zip(values.network_crop, steps, strict=True))
        able = "can be trained on this crop" if halves else f"needs multiples of {max(steps)}"
        if halves and needed > budget:
            able = f"needs more than {budget:.3g} GB on this crop"
        numbers = f"{passes(values.batch)} passes of a step: {needed:.2g} GB"
        rows.append({"name": "network.name", "value": name, "why": able, "numbers": numbers})
    return rows


def _step_memory(values: "Plan", preset: str | None) -> dict[str, str]:
    """What a training step takes at its peak, counted on the networks themselves."""
    from tracoco.errors import UserError
    from tracoco.presets import load_config
    from tracoco.runs.build import resolved
    from tracoco.training.step_cost import step_memory

    config = load_config(preset)
    row = {"name": "memory of a step", "value": "none", "why": "", "numbers": ""}
    say("counting what a training step takes, about ten seconds")
    try:
        config = resolved(config, values)
        found = step_memory(config, values)
    except UserError as error:  # e.g. of a crop that the network cannot halve
        return row | {"why": str(error)}
    crops = "{} + {} crops".format(*config.data.batch)
    row["numbers"] = f"{config.method.name}, {config.network.name}, {crops}"
    if found is None:
        return row | {"value": "unknown", "why": "the method leaves torch, so nothing is counted"}
    kept, checkpointed = found.kept / 1e9, found.checkpointed / 1e9
    why = f"counted; {checkpointed:.2g} GB with training.checkpointing=true"
    return row | {"value": f"{kept:.2g} GB", "why": why}


def _training_time(values: "Plan", preset: str | None) -> dict[str, str]:
    """How long the steps of a training take on this machine."""
    from torch import OutOfMemoryError

    from tracoco.errors import UserError, first_line
    from tracoco.presets import load_config
    from tracoco.runs.build import resolved
    from tracoco.text import duration, short
    from tracoco.training.step_cost import step_seconds

    row = {"name": "time of a training", "value": "unknown", "why": "", "numbers": ""}
    try:
        config = resolved(load_config(preset), values)
        seconds = step_seconds(config, values)
    except (UserError, OutOfMemoryError) as error:
        return row | {"why": first_line(error)}
    steps = config.training.length
    return row | {
        "value": duration(steps * seconds),
        "why": "on this machine with nothing else running, validation not included; "
        "train --minutes sets the steps by the time",
        "numbers": f"{config.method.name}, {steps:,} steps of {short(seconds)} s",
    }


def _growth(opened: "Project") -> list[dict[str, Any]]:
    """What the same scans would get on other GPUs, each with the counted memory of a step."""
    from tracoco.presets import load_config
    from tracoco.project.explain import plans_by_memory
    from tracoco.project.fingerprint import read_fingerprint
    from tracoco.training.step_cost import step_bytes

    found = plans_by_memory(opened.load_plan(), read_fingerprint(opened.fingerprint_file))
    say("counting the same for GPUs of other sizes, up to half a minute")
    config = load_config("gpu")  # its normalisation and decoder are those of such trainings
    counted = {plan.model_dump_json(): plan for plan in found.values()}
    needed = {key: step_bytes(config, plan) or 0 for key, plan in counted.items()}
    return [
        {
            "memory_gb": memory_gb,
            "crop": list(plan.network_crop),
            "filters": plan.filters,
            "batch": list(plan.batch),
            "levels": len(plan.strides) + 1,
            "precision": plan.precision,
            "step_gb": round(needed[plan.model_dump_json()] / 1e9, 2),
        }
        for memory_gb, plan in found.items()
    ]


def _print_changes(changes: list[dict[str, Any]], project: Path) -> None:
    if not changes:
        print("the plan is as it was")
        return
    for change in changes:
        print(f"{change['name']}: {json.dumps(change['old'])} -> {json.dumps(change['new'])}")
    print(f"the plan before: {project / 'plan.yaml.bak'}")
    print(f"next: tracoco prepare {project}")


def _print_explanation(result: dict[str, Any]) -> None:
    table = Table("value", "", "why", "from", box=SIMPLE_HEAD)
    for reason in result["reasons"]:
        table.add_row(*(reason[key] for key in ("name", "value", "why", "numbers")))
    print_table(table)
    print("what changes with the memory of a GPU (tracoco plan PROJECT --redo --for gpu):")
    table = Table(
        *("memory, GB", "crop", "filters", "batch", "levels", "precision", "a step, GB"),
        box=SIMPLE_HEAD,
    )
    for row in result["growth"]:
        crop, batch = " x ".join(map(str, row["crop"])), " + ".join(map(str, row["batch"]))
        cells = (row["filters"], batch, row["levels"], row["precision"], row["step_gb"])
        table.add_row(f"{row['memory_gb']:g}", crop, *map(str, cells))
    print_table(table)
    for warning in result["warnings"]:
        print(f"warning: {warning}")
