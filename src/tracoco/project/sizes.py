"""Crop, levels, width and batch of a plan: together as large as time and memory allow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tracoco.config import BATCH, Precision
from tracoco.geometry import Strides
from tracoco.project.batch import BatchSizes, choose_batch
from tracoco.project.crop import choose_crop
from tracoco.project.levels import choose_strides
from tracoco.project.machine import Machine, Size
from tracoco.project.memory_budget import Step, training_gb
from tracoco.scans.scan import Shape


@dataclass(frozen=True, slots=True)
class Task:
    """What sizes are chosen for."""

    dimensions: int
    classes: int
    lengths: Sequence[float]
    """Median voxels of a stored scan along each axis."""
    sides: Sequence[float]
    """Of a voxel that a network sees, in mm."""
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


Fits = Callable[[Sizes], bool]


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


def _sizes(task: Task, size: Size, fits: Fits) -> Sizes:
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
    seen = sizes.crop[-task.dimensions :]
    chosen = choose_batch(seen, lambda batch: fits(replace(sizes, batch=batch)), task.machine)
    return replace(sizes, batch=chosen)


def _strides(task: Task, crop: Shape) -> Strides:
    given = task.given.get("strides")
    return choose_strides(crop[-task.dimensions :], task.sides) if given is None else given


def _needed_gb(task: Task, sizes: Sizes) -> float:
    seen = sizes.crop[-task.dimensions :]
    step = Step(seen, sizes.strides, sizes.batch, sizes.filters, task.classes, task.precision)
    return training_gb(step)
