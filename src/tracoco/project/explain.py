"""Why each value of a plan is what it is, and from which numbers it comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from tracoco.config import FILTERS
from tracoco.project.derive import thick_axis, with_spacing
from tracoco.project.explain_values import (
    Reason,
    batch_reason,
    by_axis,
    crop_reason,
    filters_reason,
    intensity_reasons,
    or_by_hand,
    precision_reason,
    steps_reason,
    strides_reason,
    value_range,
)
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.machine import TYPICAL_GPUS, Device, Machine, plan_gb
from tracoco.project.plan import Plan
from tracoco.project.planner import SIZES, make_plan, stored_shapes


def plan_warnings(plan: Plan, fingerprint: Fingerprint, machine: Machine) -> list[str]:
    """What a person should know before a training starts."""
    return [
        *_unknown_spacing(fingerprint),
        *_room(plan, fingerprint),
        *_memory(plan, machine),
    ]


def _unknown_spacing(fingerprint: Fingerprint) -> Iterator[str]:
    unknown = sum(not case.has_geometry for case in fingerprint.cases)
    if unknown:
        yield (
            f"{unknown} of {len(fingerprint.cases)} scans do not state their spacing: 1 mm is "
            "assumed for them, so their distances are in voxels"
        )


def _room(plan: Plan, fingerprint: Fingerprint) -> Iterator[str]:
    """Translation consistency needs scans that are larger than a crop, at least along one axis."""
    shapes = stored_shapes(plan, fingerprint)
    axes = range(3 - plan.dimensions, 3)
    for axis in axes:
        without = sum(shape[axis] <= plan.crop[axis] for shape in shapes)
        if without:
            yield (
                f"no room to translate along axis {axis} in {without} of {len(shapes)} scans: the "
                f"crop has {plan.crop[axis]} voxels there"
            )
    still = sum(all(shape[axis] <= plan.crop[axis] for axis in axes) for shape in shapes)
    if still:
        yield (
            f"{still} of {len(shapes)} scans are no larger than a crop: translation consistency "
            "teaches nothing on them; make crop smaller in plan.yaml"
        )


def _memory(plan: Plan, machine: Machine) -> Iterator[str]:
    needed = plan_gb(plan)
    if needed > machine.budget_gb:
        yield (
            f"a training takes about {needed:.2g} GB, more than {machine.budget_gb:.3g} GB; make "
            "crop, filters or batch smaller in plan.yaml"
        )


SIZED = {*SIZES, "steps", "precision"}
"""Values of a plan that follow from the machine too."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan in words."""

    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]


def explain_plan(
    plan: Plan, fingerprint: Fingerprint, memory_gb: float, device: Device = "cpu"
) -> Explanation:
    """Say of each value where it comes from; what a person set differs from what would follow."""
    machine = Machine(device, memory_gb)
    derive = partial(make_plan, fingerprint, memory_gb=memory_gb, device=device)
    follows = derive(plan.dimensions, overrides={"slice_axis": plan.slice_axis})
    # A crop follows from the spacing that there is, not from the one that there would be, and
    # what a network is from the crop that there is.
    same_grid = plan.model_dump(exclude=SIZED)
    crop = derive(overrides=same_grid).crop
    same_crop = derive(overrides=same_grid | {"crop": plan.crop})
    reasons = (
        Reason("dimensions", str(plan.dimensions), "chosen at init", ""),
        *_slice_axis(plan, fingerprint),
        _spacing(plan, fingerprint, follows),
        *intensity_reasons(plan, fingerprint, follows),
        _content(plan, fingerprint, follows),
        crop_reason(plan, fingerprint, crop, machine),
        strides_reason(plan, same_crop.strides),
        filters_reason(plan, same_crop.filters or FILTERS, machine),
        batch_reason(plan, machine),
        precision_reason(plan, machine),
        steps_reason(plan, machine),
        _mirroring(plan),
        *_classes(plan, fingerprint),
    )
    return Explanation(reasons, tuple(plan_warnings(plan, fingerprint, machine)))


def plans_by_memory(plan: Plan, fingerprint: Fingerprint) -> dict[float, Plan]:
    """What the same scans would get on GPUs with so many gigabytes."""
    same_grid = plan.model_dump(exclude=SIZED)
    return {
        memory_gb: make_plan(fingerprint, overrides=same_grid, memory_gb=memory_gb, device="gpu")
        for memory_gb in TYPICAL_GPUS
    }


def _slice_axis(plan: Plan, fingerprint: Fingerprint) -> list[Reason]:
    if plan.slice_axis is None:
        return []
    follows = make_plan(fingerprint, plan.dimensions).slice_axis
    why = or_by_hand(
        "voxels are longest along it; of equal ones the axis with the fewest",
        plan.slice_axis,
        follows,
    )
    numbers = [
        f"axis {axis}: {value_range([case.spacing_mm[axis] for case in fingerprint.cases])} mm, "
        f"{value_range([case.shape[axis] for case in fingerprint.cases])} voxels"
        for axis in range(3)
    ]
    return [Reason("slice_axis", str(plan.slice_axis), why, "; ".join(numbers))]


def _spacing(plan: Plan, fingerprint: Fingerprint, follows: Plan) -> Reason:
    known = with_spacing(fingerprint.cases)
    why = "median of the scans"
    thick = thick_axis(fingerprint.cases)
    if thick is not None and plan.dimensions == 3:
        why += f"; along axis {thick}, where voxels are long and few, the 10th percentile"
    if plan.slice_axis is not None:
        why += "; slices, which come first, are not resampled across"
    ranges = [value_range([case.spacing_mm[axis] for case in known]) for axis in plan.stored_axes]
    return Reason(
        "spacing_mm",
        by_axis(plan.spacing_mm),
        or_by_hand(why, plan.spacing_mm, follows.spacing_mm),
        f"{len(known)} scans of {' x '.join(ranges)} mm",
    )


def _content(plan: Plan, fingerprint: Fingerprint, follows: Plan) -> Reason:
    value, usual = (str(each.crop_to_content).lower() for each in (plan, follows))
    fractions = [
        round(100 * prod(case.content_shape) / prod(case.shape))
        for case in fingerprint.cases
        if case.content_shape
    ]
    why = or_by_hand("a margin in which nothing changes only costs time and disk", value, usual)
    numbers = (
        f"without it {value_range(fractions)} % of a scan's voxels are left" if fractions else ""
    )
    return Reason("crop_to_content", value, why, numbers)


def _mirroring(plan: Plan) -> Reason:
    if plan.mirror_axes:
        axes = ", ".join(map(str, plan.mirror_axes))
        return Reason("mirror_axes", axes, "set by hand or by --paper-data", "half of the crops")
    why = "a body has sides, and no numbers tell whether they matter; set it by hand"
    return Reason("mirror_axes", "none", why, "")


def _classes(plan: Plan, fingerprint: Fingerprint) -> list[Reason]:
    facts = {fact.value: fact for fact in fingerprint.labels}
    total = sum(fact.voxels for fact in fingerprint.labels) or 1
    return [
        Reason(
            f"class {index}",
            f"{name} ({value})",
            "a value of the labels",
            f"in {facts[value].cases} cases, {100 * facts[value].voxels / total:.2g} % of voxels"
            if value in facts
            else "in no label",
        )
        for index, (value, name) in enumerate(zip(plan.label_values, plan.class_names, strict=True))
    ]
