"""Why each value of a plan is what it is, and from which numbers it comes."""

from dataclasses import dataclass
from math import prod

from tracoco.project.derive import thick_axis, with_spacing
from tracoco.project.explain_intensities import intensity_reasons
from tracoco.project.explain_sizes import batch_reason, crop_reason, strides_reason
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.make_plan import make_plan
from tracoco.project.plan import Plan
from tracoco.project.plan_warnings import plan_warnings
from tracoco.project.reason import Reason, or_by_hand, sides, value_range


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan in words."""

    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]


def explain_plan(plan: Plan, fingerprint: Fingerprint, memory_gb: float) -> Explanation:
    """Say of each value where it comes from; what a person set differs from what would follow."""
    follows = make_plan(
        fingerprint,
        plan.dimensions,
        overrides={"slice_axis": plan.slice_axis},
        memory_gb=memory_gb,
    )
    # A crop follows from the spacing that there is, not from the one that there would be, and
    # what a network is from the crop that there is.
    same_grid = plan.model_dump(exclude={"crop", "strides", "batch"})
    crop = make_plan(fingerprint, overrides=same_grid, memory_gb=memory_gb).crop
    same_crop = same_grid | {"crop": plan.crop}
    strides = make_plan(fingerprint, overrides=same_crop, memory_gb=memory_gb).strides
    reasons = (
        Reason("dimensions", str(plan.dimensions), "chosen at init", ""),
        *_slice_axis(plan, fingerprint),
        _spacing(plan, fingerprint, follows),
        *intensity_reasons(plan, fingerprint, follows),
        _content(plan, fingerprint, follows),
        crop_reason(plan, fingerprint, crop, memory_gb),
        strides_reason(plan, strides),
        batch_reason(plan, memory_gb),
        *_classes(plan, fingerprint),
    )
    return Explanation(reasons, tuple(plan_warnings(plan, fingerprint, memory_gb)))


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
        sides(plan.spacing_mm),
        or_by_hand(why, plan.spacing_mm, follows.spacing_mm),
        f"{len(known)} scans of {' x '.join(ranges)} mm",
    )


def _content(plan: Plan, fingerprint: Fingerprint, follows: Plan) -> Reason:
    value, usual = (str(each.crop_to_content).lower() for each in (plan, follows))
    shares = [
        round(100 * prod(case.content_shape) / prod(case.shape))
        for case in fingerprint.cases
        if case.content_shape
    ]
    why = or_by_hand("a margin in which nothing changes only costs time and disk", value, usual)
    numbers = f"without it {value_range(shares)} % of a scan's voxels are left" if shares else ""
    return Reason("crop_to_content", value, why, numbers)


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
