"""A folder with a mask file for each structure: TotalSegmentator's `segmentations/liver.nii.gz`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import nifti
from tracoco.scans.scan import LabelScan, Scan, ScanHeader, Structure, check_same_grid

FOLDER = "segmentations"
"""By other names, folders of files are scans of several cases."""
SUFFIXES = (".nii.gz", ".nii")


def is_series(path: Path) -> bool:
    """Whether a folder holds masks that are one label together; no file is opened."""
    return path.name == FOLDER and path.is_dir() and bool(_masks(path))


def read_structures(path: Path) -> tuple[Structure, ...]:
    """A value for each file, in the order of their names."""
    return tuple(Structure(value, _name(mask)) for value, mask in enumerate(_masks(path), 1))


def read_header(path: Path) -> ScanHeader:
    """The grid of the first mask."""
    return nifti.read_header(_masks(path)[0])


def read_image(path: Path) -> Scan:
    """Masks are no image."""
    raise UserError(f"{path} is a folder of masks, one per structure; it is a label, not an image")


def read_label(path: Path) -> LabelScan:
    """All masks as one label map [X, Y, Z] in canonical order; a mask is what is not 0."""
    structures, masks = read_structures(path), _masks(path)
    first = nifti.read_label(masks[0])
    array = np.zeros(first.array.shape, np.uint16)
    for structure, mask in zip(structures, masks, strict=True):
        label = nifti.read_label(mask)
        check_same_grid(first.header, label.header)
        inside = label.array != 0
        _refuse_overlap(array[inside], structure, structures, path)
        array[inside] = structure.value
    return LabelScan(array, first.affine, first.spacing_mm, first.grid, path, structures)


def _refuse_overlap(
    taken: NDArray[Any], structure: Structure, structures: Sequence[Structure], path: Path
) -> None:
    if taken.any():
        other = structures[int(taken.max()) - 1].name
        raise UserError(
            f"{path}: '{other}' and '{structure.name}' overlap in "
            f"{int(np.count_nonzero(taken))} voxels; a label map has one value a voxel. Move one "
            "of the masks elsewhere, or cut one out of the other"
        )


def _masks(path: Path) -> list[Path]:
    found = (file for file in path.iterdir() if not file.name.startswith("."))
    return sorted(file for file in found if file.name.lower().endswith(SUFFIXES))


def _name(mask: Path) -> str:
    suffix = next(suffix for suffix in SUFFIXES if mask.name.lower().endswith(suffix))
    return mask.name[: -len(suffix)]
