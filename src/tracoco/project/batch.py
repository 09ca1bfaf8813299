"""How many crops a step sees: more where they are small."""

from collections.abc import Callable, Sequence
from math import prod

from tracoco.config import BATCH
from tracoco.project.machine import Machine

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
