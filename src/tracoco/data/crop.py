"""One box of a stored volume: turned, changed, and read only when and where it is wanted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.data.augment import Appearance, Orientation, Voxel, blur_reach, brighten
from tracoco.geometry import Box, Index, Size, whole
from tracoco.project.preprocess import is_drawn


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """A box of a volume as it will look; its voxels are read when they are asked for."""

    image: NDArray[np.float32]
    """The whole volume [C, ...], mapped from its file."""
    box: Box
    orientation: Orientation
    appearance: Appearance
    image_valid: NDArray[np.bool_] | None = None
    """Which voxels of `image` lie in the scan; all of them if not given."""
    label: NDArray[np.uint8] | None = None
    """Of the whole volume, where some voxels are not drawn: those count as padding."""
    used: bool = True
    """Nothing is read of a crop that is not used: its last axis is of length 0."""

    @property
    def start(self) -> Index:
        """Its place in the oriented volume, below 0 where it is padded."""
        return self.orientation.place(self.box, self.image.shape[1:])

    @property
    def shape(self) -> Size:
        """Of its voxels, [C, ...]."""
        size = self.orientation.size_before(self.box.size)  # to exchange twice is to do nothing
        return (len(self.image), *size[:-1], size[-1] if self.used else 0)

    @property
    def padded(self) -> bool:
        """Whether it reaches beyond the scan."""
        if self.label is not None or self.box.intersect(whole(self.image.shape[1:])) != self.box:
            return True
        return self.image_valid is not None and not self.image_valid[self.box.slices].all()

    @property
    def values(self) -> NDArray[np.float32]:
        """Its voxels."""
        values = np.empty(self.shape, dtype=np.float32)
        self.read(values)
        return values

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which of its voxels lie in the volume."""
        valid = np.empty(self.shape[1:], dtype=np.bool_)
        self.mark(valid)
        return valid

    def read(self, into: NDArray[np.float32]) -> None:
        """Put its voxels where they are wanted: made elsewhere, they would be copied once more."""
        if self.used:
            read_changed(self.image, self.box, self.appearance, self.orientation.undo(into))

    def mark(self, into: NDArray[np.bool_]) -> None:
        """Say of each voxel whether it lies in the scan, and whether it is drawn."""
        if not self.used:
            return
        place = self.orientation.undo(into)
        if self.image_valid is None:
            mark_valid(self.box, self.image.shape[1:], place)
        else:
            place[...] = read_box(self.image_valid, self.box)
        if self.label is not None:
            place &= is_drawn(read_box(self.label, self.box))


def read_changed(
    image: NDArray[np.float32], box: Box, appearance: Appearance, into: NDArray[np.float32]
) -> None:
    """Write the voxels of a box as they look after a change of intensities, zero beyond the volume.

    A blur is given what lies around the box, so that crops agree where they meet. Along an axis
    on which the box is a single slice nothing is blurred.
    """
    covered = box.intersect(whole(image.shape[-3:]))
    place = into[last_axes(covered.seen_from(box.start))]
    if covered != box:
        into[...] = 0
    if appearance.brightness_alone:
        brighten(
            image[last_axes(covered)], appearance.brightness, into=place, limits=appearance.limits
        )
        return
    margin = tuple(blur_reach(appearance.sigma) if n > 1 else 0 for n in box.size)
    start = tuple(a - m for a, m in zip(box.start, margin, strict=True))
    size = tuple(n + 2 * m for n, m in zip(box.size, margin, strict=True))
    around = Box(start, size).intersect(whole(image.shape[-3:]))
    axes = tuple(axis - len(margin) for axis, m in enumerate(margin) if m)
    changed = appearance.apply(image[last_axes(around)], axes)
    place[...] = changed[last_axes(covered.seen_from(around.start))]


def read_box(array: NDArray[Voxel], box: Box) -> NDArray[Voxel]:
    """The voxels of a box, zero where it reaches beyond the volume; leading axes are kept."""
    shape = array.shape[-3:]
    covered = box.intersect(whole(shape))
    if covered == box:
        return np.array(array[last_axes(box)])
    padded = np.zeros((*array.shape[:-3], *box.size), dtype=array.dtype)
    padded[last_axes(covered.seen_from(box.start))] = array[last_axes(covered)]
    return padded


def last_axes(box: Box) -> Any:
    """A box as an index behind any leading axes."""
    return (..., *box.slices)


def inside_volume(box: Box, shape: Size) -> NDArray[np.bool_]:
    """Which voxels of a box lie in the volume and are not padding."""
    valid = np.empty(box.size, dtype=np.bool_)
    mark_valid(box, shape, valid)
    return valid


def mark_valid(box: Box, shape: Size, into: NDArray[np.bool_]) -> None:
    """Write which voxels of a box lie in the volume; mostly all of them do."""
    covered = box.intersect(whole(shape))
    into[...] = covered == box
    if covered != box:
        into[covered.seen_from(box.start).slices] = True
