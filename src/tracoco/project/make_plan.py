"""From what the data looks like to a plan for it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from tracoco.config import checked
from tracoco.project.derive import (
    choose_slice_axis,
    choose_spacing,
    choose_statistics,
    choose_windows,
    median_of,
    slices_first,
    with_spacing,
)
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.machine import Device, find_machine
from tracoco.project.plan import Plan
from tracoco.project.sizes import Task, choose_sizes
from tracoco.scans.scan import Shape

SIZES = ("crop", "strides", "batch", "filters")
"""Values of a plan that are chosen together, once all others are known."""


def make_plan(
    fingerprint: Fingerprint,
    dimensions: Literal[2, 3] = 3,
    *,
    overrides: Mapping[str, Any] | None = None,
    memory_gb: float | None = None,
    device: Device | None = None,
) -> Plan:
    """Derive a plan from the data.

    Args:
        fingerprint: what the data looks like.
        dimensions: 2 for slices.
        overrides: values of the plan that are known better; the others are derived to go with them.
        memory_gb: what a training may take; if not given, the machine says.
        device: what it will run on; if not given, this machine's GPU if it has one.
    """
    given, cases = dict(overrides or {}), fingerprint.cases
    machine = find_machine(device, memory_gb)
    dimensions = given.get("dimensions", dimensions)
    slice_axis = given.get("slice_axis", choose_slice_axis(cases) if dimensions == 2 else None)
    axes = (0, 1, 2) if slice_axis is None else slices_first(slice_axis)
    spacing = choose_spacing(cases, dimensions)
    values = given.get("label_values", sorted({0, *(fact.value for fact in fingerprint.labels)}))
    derived = {
        "dimensions": dimensions,
        "channels": cases[0].channels,
        "label_values": values,
        "class_names": ("background", *(f"label {value}" for value in values[1:])),
        "slice_axis": slice_axis,
        "spacing_mm": [round(spacing[axis], 6) for axis in axes],  # exact to a nanometre
        "crop": (1, 1, 1),
        "steps": machine.steps,
        "precision": machine.precision,
        "normalisation": "zscore",
        "window": choose_windows(fingerprint),
        "statistics_over": choose_statistics(cases),
        "crop_to_content": True,
    }
    later = {name: given[name] for name in SIZES if name in given}
    others = {name: value for name, value in given.items() if name not in SIZES}
    plan = checked(Plan, derived | others, "the plan")
    if "window_mean_sd" not in given:
        scales = _window_scales(plan, fingerprint)
        plan = plan.model_copy(update={"window_mean_sd": scales})
    lengths, sides = stored_lengths(plan, fingerprint), _sides(plan, fingerprint)
    sizes = choose_sizes(Task(plan.dimensions, plan.classes, lengths, sides, machine, given))
    return checked(Plan, plan.model_dump() | asdict(sizes) | later, "the plan")


def _window_scales(plan: Plan, fingerprint: Fingerprint) -> tuple[tuple[float, float] | None, ...]:
    """Mean and standard deviation of the structures, for the channels that have a window."""
    found = fingerprint.foreground or (None,) * plan.channels
    return tuple(
        (inside.mean, inside.sd) if window and inside and inside.sd > 0 else None
        for window, inside in zip(plan.window, found, strict=True)
    )


def _sides(plan: Plan, fingerprint: Fingerprint) -> tuple[float, ...]:
    """Of a voxel that a network sees, in mm; where scans are left as they are, their median."""
    median = median_of([case.spacing_mm for case in with_spacing(fingerprint.cases)])
    sides = [
        median[axis] if side is None else side
        for axis, side in zip(plan.stored_axes, plan.spacing_mm, strict=True)
    ]
    return tuple(sides[-plan.dimensions :])


def stored_lengths(plan: Plan, fingerprint: Fingerprint) -> tuple[float, float, float]:
    """Median voxels of a stored scan along each axis."""
    return median_of(stored_shapes(plan, fingerprint))


def stored_shapes(plan: Plan, fingerprint: Fingerprint) -> list[Shape]:
    """The shape of each stored scan; of one whose content is not known, at most that."""
    return [
        plan.stored_shape(
            (plan.crop_to_content and case.content_shape) or case.shape, case.spacing_mm
        )
        for case in fingerprint.cases
    ]
