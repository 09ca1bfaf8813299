"""Why each value of a plan is what it is, and from which numbers it comes."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tracoco.project.crop import MOST_VOXELS, THIN, choose_crop
from tracoco.project.derive import looking_like_ct, thick_axis, with_spacing
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.make_plan import make_plan, stored_lengths
from tracoco.project.memory_budget import passes, training_gb, voxels_within
from tracoco.project.plan import Plan
from tracoco.project.plan_warnings import plan_warnings


@dataclass(frozen=True, slots=True)
class Reason:
    """One value of a plan."""

    name: str
    value: str
    why: str
    numbers: str
    """What was measured."""


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
    # A crop follows from the spacing that there is, not from the one that there would be.
    same_grid = plan.model_dump(exclude={"crop"})
    crop = make_plan(fingerprint, overrides=same_grid, memory_gb=memory_gb).crop
    reasons = (
        Reason("dimensions", str(plan.dimensions), "chosen at init", ""),
        *_slice_axis(plan, fingerprint),
        _spacing(plan, fingerprint, follows),
        *_windows(plan, fingerprint, follows),
        _crop(plan, fingerprint, crop, memory_gb),
        *_classes(plan, fingerprint),
    )
    return Explanation(reasons, tuple(plan_warnings(plan, fingerprint, memory_gb)))


def _slice_axis(plan: Plan, fingerprint: Fingerprint) -> list[Reason]:
    if plan.slice_axis is None:
        return []
    follows = make_plan(fingerprint, plan.dimensions).slice_axis
    why = _or_by_hand(
        "voxels are longest along it; of equal ones the axis with the fewest",
        plan.slice_axis,
        follows,
    )
    numbers = [
        f"axis {axis}: {_range([case.spacing_mm[axis] for case in fingerprint.cases])} mm, "
        f"{_range([case.shape[axis] for case in fingerprint.cases])} voxels"
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
    ranges = [_range([case.spacing_mm[axis] for case in known]) for axis in plan.stored_axes]
    return Reason(
        "spacing_mm",
        _sides(plan.spacing_mm),
        _or_by_hand(why, plan.spacing_mm, follows.spacing_mm),
        f"{len(known)} scans of {' x '.join(ranges)} mm",
    )


def _windows(plan: Plan, fingerprint: Fingerprint, follows: Plan) -> list[Reason]:
    reasons = []
    for channel, window in enumerate(plan.window):
        like_ct = looking_like_ct(fingerprint.cases, channel)
        if follows.window[channel]:
            why = "looks like CT: 0.5 and 99.5 percent of the labelled structures' intensities"
        else:
            why = f"percentiles {plan.low_percentile} and {plan.high_percentile} of each scan, "
            why += "since its numbers do not mean the same in every scan"
        numbers = f"{like_ct} of {len(fingerprint.cases)} scans have whole numbers down to air"
        if fingerprint.foreground:
            inside = fingerprint.foreground[channel]
            numbers += f"; structures: {inside.mean:.4g} +- {inside.sd:.4g}"
        value = f"{window[0]:g} to {window[1]:g}" if window else "of each scan"
        reasons.append(
            Reason(
                f"window, channel {channel}",
                value,
                _or_by_hand(why, window, follows.window[channel]),
                numbers,
            )
        )
    return reasons


def _crop(
    plan: Plan, fingerprint: Fingerprint, follows: tuple[int, int, int], memory_gb: float
) -> Reason:
    lengths = stored_lengths(plan, fingerprint)
    why = f"two thirds of a scan, in multiples of 16 or 8; axes of fewer than {THIN} voxels whole"
    if follows != choose_crop(lengths, plan.dimensions, most_voxels=sys.maxsize):
        scarce = voxels_within(memory_gb, plan.dimensions) < MOST_VOXELS
        limit = f"{memory_gb:.3g} GB of memory" if scarce else f"{MOST_VOXELS} voxels, for time"
        why += f"; cut for at most {limit}"
    needed = training_gb(prod(plan.crop), plan.dimensions)
    numbers = f"median scan {_sides(lengths)} voxels; {passes()} passes of a step: {needed:.2g} GB"
    return Reason("crop", _sides(plan.crop), _or_by_hand(why, plan.crop, follows), numbers)


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


def _or_by_hand(why: str, value: object, follows: object) -> str:
    if value == follows:
        return why
    return f"set by hand or by a recipe; from the data it would be {_plain(follows)}"


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return _sides(value)
    return "null" if value is None else str(value)


def _sides(values: Sequence[float]) -> str:
    return " x ".join(f"{value:g}" for value in values)


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"
