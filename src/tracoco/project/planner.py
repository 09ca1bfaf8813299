"""From the fingerprint of a data set to a plan: crop, network levels, width, batch and length.

They are chosen together, as large as memory and time allow, with room to translate the crops.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Literal

from tracoco.config import BATCH, Precision
from tracoco.geometry import Strides
from tracoco.project.derive import (
    choose_slice_axis,
    choose_spacing,
    choose_statistics,
    choose_strides,
    choose_windows,
    median_of,
    slices_first,
    with_spacing,
)
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.machine import Device, Machine, Step, TrainingSize, find_machine, training_gb
from tracoco.project.plan import Plan
from tracoco.scans.scan import Shape
from tracoco.settings import checked

THIN = 24
"""An axis of fewer voxels is taken whole: there is no room to translate along it."""
LEAST = 32
"""For want of memory an axis is cut to this and no further: networks must be able to halve it."""

CropFits = Callable[[Shape], bool]


def choose_crop(lengths: Sequence[float], dimensions: int, fits: CropFits) -> Shape:
    """Crop for scans of these lengths; in 2D the first axis is that of the slices, taken singly.

    Where it does not fit, the longest axis is cut, so that the few voxels along a thick axis are
    kept.
    """
    slices = 3 - dimensions
    a, b, c = [1] * slices + [_crop_length(length) for length in lengths[slices:]]
    crop = (a, b, c)
    while not fits(crop) and max(crop) > LEAST:
        crop = _cut(crop)
    return crop


def _cut(crop: Shape) -> Shape:
    longest = crop.index(max(crop))
    a, b, c = ((n - 1) // 16 * 16 if axis == longest else n for axis, n in enumerate(crop))
    return (a, b, c)


def _crop_length(length: float) -> int:
    """Two thirds of an axis or somewhat less, in a length that networks can halve."""
    if length < THIN:
        return int(-(-length // 4) * 4)
    wide, fine = (int(length * 2 / 3) // step * step for step in (16, 8))
    return wide if wide >= length / 2 else fine


BatchSizes = tuple[int, int]


def choose_batch(
    crop: Sequence[int], fits: Callable[[BatchSizes], bool], machine: Machine
) -> BatchSizes:
    """As many labelled and unlabelled crops as fit, up to enough voxels; 2 of each at the least."""
    least = max(BATCH)
    count = max(least, min(machine.most_crops, round(machine.batch_voxels / prod(crop))))
    while count > least and not fits((count, count)):
        count -= 1
    return (count, count)


def within_cases(batch: BatchSizes, labelled: int, unlabelled: int) -> BatchSizes:
    """A batch in which no scan comes twice, as far as 2 of each kind allow that."""
    first, second = (
        min(size, max(least, count))
        for size, least, count in zip(batch, BATCH, (labelled, unlabelled), strict=True)
    )
    return (first, second)


@dataclass(frozen=True, slots=True)
class Task:
    """What sizes are chosen for."""

    dimensions: int
    classes: int
    lengths: Sequence[float]
    """Median voxels of a stored scan along each axis."""
    spacing_mm: Sequence[float]
    """Of a crop as the network sees it."""
    machine: Machine
    given: Mapping[str, Any]
    """Values of the plan that are known better."""

    @property
    def precision(self) -> Precision:
        """What convolutions are computed in."""
        return self.given.get("precision") or self.machine.precision or "fp32"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a plan."""

    crop: Shape
    strides: Strides
    batch: BatchSizes
    filters: int


SizesFit = Callable[[Sizes], bool]


def choose_sizes(task: Task) -> Sizes:
    """The largest size whose whole batch fits; of the smallest one, what fits.

    For want of memory the batch shrinks first, to 2 + 2, and then the crop.
    """

    def fits(sizes: Sizes) -> bool:
        return _needed_gb(task, sizes) <= task.machine.budget_gb

    for size in reversed(task.machine.sizes):
        sizes = _sizes(task, size, lambda _: True)
        if fits(sizes):
            return sizes
    return _sizes(task, task.machine.sizes[0], fits)


def _sizes(task: Task, size: TrainingSize, fits: SizesFit) -> Sizes:
    """Sizes of a width, with a crop of so many voxels at most."""
    filters = task.given.get("filters") or size.filters
    batch = task.given.get("batch", BATCH)

    def of(crop: Shape) -> Sizes:
        return Sizes(crop, _strides(task, crop), batch, filters)

    def in_time(crop: Shape) -> bool:
        return prod(crop) <= size.voxels and fits(of(crop))

    given = task.given.get("crop")
    sizes = of(given or choose_crop(task.lengths, task.dimensions, in_time))
    if "batch" in task.given:
        return sizes
    network_crop = sizes.crop[-task.dimensions :]
    chosen = choose_batch(
        network_crop, lambda batch: fits(replace(sizes, batch=batch)), task.machine
    )
    return replace(sizes, batch=chosen)


def _strides(task: Task, crop: Shape) -> Strides:
    given = task.given.get("strides")
    return choose_strides(crop[-task.dimensions :], task.spacing_mm) if given is None else given


def _needed_gb(task: Task, sizes: Sizes) -> float:
    network_crop = sizes.crop[-task.dimensions :]
    step = Step(
        network_crop, sizes.strides, sizes.batch, sizes.filters, task.classes, task.precision
    )
    return training_gb(step)


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
    lengths, network_mm = stored_lengths(plan, fingerprint), _network_spacing(plan, fingerprint)
    sizes = choose_sizes(Task(plan.dimensions, plan.classes, lengths, network_mm, machine, given))
    return checked(Plan, plan.model_dump() | asdict(sizes) | later, "the plan")


def _window_scales(plan: Plan, fingerprint: Fingerprint) -> tuple[tuple[float, float] | None, ...]:
    """Mean and standard deviation of the structures, for the channels that have a window."""
    found = fingerprint.foreground or (None,) * plan.channels
    return tuple(
        (structures.mean, structures.sd) if window and structures and structures.sd > 0 else None
        for window, structures in zip(plan.window, found, strict=True)
    )


def _network_spacing(plan: Plan, fingerprint: Fingerprint) -> tuple[float, ...]:
    """Spacing in mm of what a network sees; where scans are left as they are, their median."""
    median = median_of([case.spacing_mm for case in with_spacing(fingerprint.cases)])
    spacing = [
        median[axis] if side is None else side
        for axis, side in zip(plan.stored_axes, plan.spacing_mm, strict=True)
    ]
    return tuple(spacing[-plan.dimensions :])


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
