"""Which three slices of a case to look at, and how much of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Box = tuple[slice, ...]

MARGIN = 0.5
"""Seen on each side of the structure, as a share of its longest side."""


@dataclass(frozen=True, slots=True)
class View:
    """One way to cut a volume: axes of the picture, and what lies at its edges."""

    name: str
    across: int
    up: int
    through: int
    edges: tuple[str, str, str, str]
    """Left, right, bottom, top: a viewer faces the patient, whose right is on the left."""


VIEWS = (
    View("axial", across=0, up=1, through=2, edges=("R", "L", "P", "A")),
    View("coronal", across=0, up=2, through=1, edges=("R", "L", "I", "S")),
    View("sagittal", across=1, up=2, through=0, edges=("P", "A", "I", "S")),
)


def shown_views(shape: Sequence[int]) -> list[View]:
    """All three views of a volume, or the one view of an image."""
    return [view for view in VIEWS if min(shape[view.across], shape[view.up]) > 1]


def centre(mask: Mask, spacing_mm: Sequence[float]) -> tuple[int, ...]:
    """The mask's voxel nearest to its centre of mass: each slice through it shows the structure.

    The centre itself may lie outside, as in a ring or between two kidneys.
    """
    places = np.argwhere(mask)
    offsets = (places - places.mean(axis=0)) * np.asarray(spacing_mm)
    nearest = places[np.square(offsets).sum(axis=1).argmin()]
    return tuple(int(index) for index in nearest)


def surroundings(mask: Mask, spacing_mm: Sequence[float]) -> Box:
    """A box around the mask with room on each side, within the volume."""
    places = np.argwhere(mask)
    first, last = places.min(axis=0), places.max(axis=0) + 1
    room_mm = MARGIN * float(np.max((last - first) * np.asarray(spacing_mm)))
    room = np.ceil(room_mm / np.asarray(spacing_mm)).astype(int)
    return tuple(
        slice(max(0, int(low)), min(size, int(high)))
        for low, high, size in zip(first - room, last + room, mask.shape, strict=True)
    )


def cut(array: NDArray[Any], view: View, place: Sequence[int]) -> NDArray[Any]:
    """The slice of a volume [X, Y, Z] through `place`, as a picture [up, across]."""
    plane: NDArray[Any] = array.take(place[view.through], axis=view.through)
    return plane.T  # the axes that are left are in order, and `across` comes before `up`
