"""From what the data looks like to a plan for it."""

from collections.abc import Mapping
from typing import Any, Literal

from tracoco.config import checked
from tracoco.project.crop import MOST_VOXELS, choose_crop
from tracoco.project.derive import (
    choose_slice_axis,
    choose_spacing,
    choose_windows,
    median_of,
    slices_first,
)
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.memory_budget import machine_gb, voxels_within
from tracoco.project.plan import Plan


def make_plan(
    fingerprint: Fingerprint,
    dimensions: Literal[2, 3] = 3,
    *,
    overrides: Mapping[str, Any] | None = None,
    memory_gb: float | None = None,
) -> Plan:
    """Derive a plan from the data.

    Args:
        fingerprint: what the data looks like.
        dimensions: 2 for slices.
        overrides: values of the plan that are known better; the others are derived to go with them.
        memory_gb: what a training may take; if not given, the machine says.
    """
    given, cases = dict(overrides or {}), fingerprint.cases
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
        "window": choose_windows(fingerprint),
    }
    plan = checked(Plan, derived | given, "the plan")
    if "crop" in given:
        return plan
    most = voxels_within(machine_gb() if memory_gb is None else memory_gb, plan.dimensions)
    lengths = stored_lengths(plan, fingerprint)
    crop = choose_crop(lengths, plan.dimensions, min(most, MOST_VOXELS))
    return plan.model_copy(update={"crop": crop})


def stored_lengths(plan: Plan, fingerprint: Fingerprint) -> tuple[float, float, float]:
    """Median voxels of a stored scan along each axis."""
    return median_of([plan.stored_shape(f.shape, f.spacing_mm) for f in fingerprint.cases])
