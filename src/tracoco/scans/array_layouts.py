"""Arrays without a place in space, as the community passes them on: their names and their axes."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import checks
from tracoco.scans.scan import Grid, ScanHeader
from tracoco.scans.stored import Stored, describe

IMAGE_NAMES = ("image", "data")
LABEL_NAMES = ("label", "mask")


def find_name(names: Collection[str], wanted: tuple[str, ...], path: Path) -> str:
    """The first wanted name that a file has, or what it has instead."""
    for name in wanted:
        if name in names:
            return name
    found = ", ".join(sorted(names)[:10]) or "no array"
    raise UserError(
        f"{path} has no array {' or '.join(repr(name) for name in wanted)}; it has {found}. "
        "Store it under one of these names"
    )


def describe_array(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path) -> ScanHeader:
    """Lay an array on an assumed grid: 1 mm, axes as stored, marked as not placed.

    A slice [H, W] becomes [H, W, 1]: among axes of equal spacing, 2D projects count slices along
    the last. Channels come first.
    """
    checks.check_voxel_type(dtype, path)
    if len(shape) == 4 and shape[0] != min(shape):
        raise UserError(
            f"{path} has an array of the shape {shape}; the channels of a 4D array come first, "
            "and there are fewer of them than voxels on any axis. Move that axis to the front"
        )
    volume = (*shape, 1) if len(shape) == 2 else shape[-3:]
    if len(shape) not in (2, 3, 4) or min(shape) < 1:
        raise UserError(
            f"{path} has an array of the shape {shape}; a scan is a volume [X, Y, Z], channels of "
            "one [C, X, Y, Z], or a slice [H, W]. Store it as one of these"
        )
    first, second, third = volume
    grid = Grid((first, second, third), np.eye(4), has_geometry=False)
    return describe(grid, shape[0] if len(shape) == 4 else 1, path)


def stored_array(array: NDArray[Any], path: Path) -> Stored:
    """An array on its assumed grid."""
    about = describe_array(array.shape, array.dtype, path)
    return Stored(about, array.reshape(about.channels, *about.grid.shape))


def check_label_shape(image: ScanHeader, label: ScanHeader) -> None:
    """Refuse a label of another shape than the image that it lies beside."""
    if image.shape != label.shape:
        raise UserError(
            f"{image.source} has an image of {image.shape} and a label of {label.shape}; "
            "store both on the same voxels"
        )
