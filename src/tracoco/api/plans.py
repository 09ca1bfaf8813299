"""Judge a project: what `tracoco plan` and `tracoco check` call."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import OutOfMemoryError

from tracoco.api.projects import ProjectPath, folder_of, opened_project
from tracoco.config import Config
from tracoco.console import counted, progress_console, say
from tracoco.errors import UserError, first_line
from tracoco.geometry import total_stride
from tracoco.networks import NETWORKS
from tracoco.presets import load_config
from tracoco.project.check.check import Checked, TrainingNeeds, gather
from tracoco.project.check.check import check as check_material
from tracoco.project.check.problems import Row, noted
from tracoco.project.explain import explain_plan, plans_by_memory
from tracoco.project.explain_values import Reason
from tracoco.project.fingerprint import Fingerprint, read_fingerprint
from tracoco.project.machine import KEPT_MAPS, Device, find_machine, passes, plan_gb
from tracoco.project.plan import Plan
from tracoco.project.update import PlanChange, redo_plan
from tracoco.runs.build import resolved
from tracoco.text import duration, html_table, short
from tracoco.training.step_cost import step_bytes, step_memory, step_seconds


@dataclass(frozen=True, slots=True)
class PlanForMemory:
    """What the same scans would get on a GPU with this much memory."""

    memory_gb: float
    crop: tuple[int, ...]
    filters: int | None
    batch: tuple[int, int]
    levels: int
    precision: str | None
    step_gb: float
    """Memory of a training step, counted on the network itself; 0 where it cannot be counted."""


@dataclass(frozen=True, slots=True)
class PlanExplanation:
    """Why each value of a plan was chosen, and what another machine would change."""

    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]
    growth: tuple[PlanForMemory, ...]
    """One row for each size of GPU."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The plan of a project; with what changed and with reasons, where these were asked for."""

    plan: Plan
    file: Path
    """The plan as YAML with a comment for each value, to be edited."""
    changes: tuple[PlanChange, ...] | None = None
    """What `redo=True` changed."""
    explanation: PlanExplanation | None = None
    """For `explain=True`."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        changes = {} if self.changes is None else {"changes": [asdict(row) for row in self.changes]}
        explained = asdict(self.explanation) if self.explanation else {}
        return changes | {"plan": self.plan.model_dump(mode="json")} | explained

    def _repr_html_(self) -> str:
        """The values, or the reasons for them, as a table for a notebook."""
        if self.explanation is None:
            return self.plan._repr_html_()
        rows = [(row.name, row.value, row.why, row.numbers) for row in self.explanation.reasons]
        warnings = html_table((), [(f"warning: {line}",) for line in self.explanation.warnings])
        table = html_table(("value", "", "why", "from"), rows)
        return table + (warnings if self.explanation.warnings else "")


def plan(  # noqa: PLR0913 - each is an option of the command, with the same default
    project: ProjectPath,
    *,
    explain: bool = False,
    redo: bool = False,
    memory_gb: float | None = None,
    device: Device | None = None,
    preset: str | None = None,
    progress: bool = True,
) -> PlanResult:
    """Show or explain the plan of a project, or make it again.

    Args:
        project: the project, or its folder.
        explain: also say why each value was chosen; this takes about half a minute.
        redo: make the plan again; the old one is kept as plan.yaml.bak.
        memory_gb: what a training may take; the GPU's memory or a quarter of the RAM by default.
        device: plan for `cpu` or `gpu`; this machine by default.
        preset: the preset whose memory and time `explain` estimates.
        progress: say on standard error what takes long.
    """
    opened = opened_project(project)
    changes = redo_plan(opened, memory_gb, device) if redo else None
    values, explanation = opened.load_plan(), None
    if explain:
        machine = find_machine(device, memory_gb)
        fingerprint = read_fingerprint(opened.fingerprint_file)
        found = explain_plan(values, fingerprint, machine.memory_gb, machine.device)
        _announce("counting what a training step takes, about ten seconds", shown=progress)
        config = load_config(preset)
        reasons = (
            *found.reasons,
            *_networks(values, machine.budget_gb),
            _step_memory(values, config),
            _training_time(values, config),
        )
        _announce("counting the same for GPUs of other sizes, up to half a minute", shown=progress)
        growth = tuple(_growth(values, fingerprint))
        explanation = PlanExplanation(reasons, found.warnings, growth)
    return PlanResult(values, opened.plan_file, changes, explanation)


def _announce(line: str, *, shown: bool) -> None:
    if shown:
        say(line)


def _networks(values: Plan, budget: float) -> Iterator[Reason]:
    """Which networks can be trained on the planned crop; a run chooses one with network.name."""
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
        yield Reason("network.name", name, able, numbers)


def _step_memory(values: Plan, config: Config) -> Reason:
    """What a training step takes at its peak, counted on the networks themselves."""
    name = "memory of a step"
    try:
        config = resolved(config, values)
        found = step_memory(config, values)
    except UserError as error:  # e.g. of a crop that the network cannot halve
        return Reason(name, "none", str(error), "")
    crops = "{} + {} crops".format(*config.data.batch)
    numbers = f"{config.method.name}, {config.network.name}, {crops}"
    if found is None:
        why = "the method leaves torch, so nothing is counted"
        return Reason(name, "unknown", why, numbers)
    kept, checkpointed = found.kept / 1e9, found.checkpointed / 1e9
    why = f"counted; {checkpointed:.2g} GB with training.checkpointing=true"
    return Reason(name, f"{kept:.2g} GB", why, numbers)


def _training_time(values: Plan, config: Config) -> Reason:
    """How long the steps of a training take on this machine."""
    name = "time of a training"
    try:
        config = resolved(config, values)
        seconds = step_seconds(config, values)
    except (UserError, OutOfMemoryError) as error:
        return Reason(name, "unknown", first_line(error), "")
    steps = config.training.length
    return Reason(
        name,
        duration(steps * seconds),
        "on this machine with nothing else running, validation not included; "
        "train --minutes sets the steps by the time",
        f"{config.method.name}, {steps:,} steps of {short(seconds)} s",
    )


def _growth(values: Plan, fingerprint: Fingerprint) -> Iterator[PlanForMemory]:
    """What the same scans would get on other GPUs, each with the counted memory of a step."""
    found = plans_by_memory(values, fingerprint)
    config = load_config("gpu")  # its normalisation and decoder are those of such trainings
    counted = {plan.model_dump_json(): plan for plan in found.values()}
    needed = {key: step_bytes(config, plan) or 0 for key, plan in counted.items()}
    for memory_gb, plan in found.items():
        yield PlanForMemory(
            memory_gb,
            plan.network_crop,
            plan.filters,
            plan.batch,
            len(plan.strides) + 1,
            plan.precision,
            round(needed[plan.model_dump_json()] / 1e9, 2),
        )


def check(path: ProjectPath, *, workers: int | None = None, progress: bool = True) -> Checked:
    """Open every scan of a project, or of a folder before `init`, and list all problems.

    For a project without errors, also estimate the time and the memory of a training.

    Args:
        path: a project, or a folder of scans.
        workers: processes that read scans; as many as suit the machine by default.
        progress: show progress on standard error.
    """
    material = gather(folder_of(path))
    console = progress_console() if progress else None
    with counted("checking", len(material.cases), console) as on_case:
        checked = check_material(material, on_case, workers)
    if material.plan is None or checked.exit_code == 2:
        return checked
    refused: list[Row] = []
    with noted(refused, file=material.root / "plan.yaml"):
        training = _training_needs(material.plan, progress=progress)
        return replace(checked, training=training)
    return replace(checked, rows=(*refused, *checked.rows))


def _training_needs(plan: Plan, *, progress: bool) -> TrainingNeeds:
    """Of a training with the default settings: time by a step on small crops, memory counted."""
    config = resolved(Config(), plan)
    if progress:
        say("counting what a training step takes, about ten seconds")
    memory = step_memory(config, plan)
    steps = config.training.length
    return TrainingNeeds(memory.kept if memory else None, step_seconds(config, plan) * steps, steps)
