"""Slices put on one grid, or the reason why they do not lie on one.

The order is that of the positions along the normal of the slices: names and instance numbers
follow the scanner's or the archive's taste. The distance is measured between the positions too;
the thickness of a slice says how much tissue it shows, not how far the next one is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracoco.errors import UserError
from tracoco.scans import checks, dicom_checks
from tracoco.scans.dicom_slice import Slice
from tracoco.scans.scan import Affine, Grid

RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""DICOM counts millimetres to the left and to the back, the package to the right and the front."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The slices from one end to the other, and their grid [columns, rows, slices]."""

    slices: tuple[Slice, ...]
    grid: Grid


def stack_slices(slices: Sequence[Slice], path: Path) -> Stack:
    """Put slices in order and on a grid; anything that would place one wrongly is refused."""
    dicom_checks.check_any(slices, path)
    dicom_checks.check_one_series(slices, path)
    dicom_checks.check_alike(slices, path)
    affine = plane_affine(slices[0], path)
    normal = affine[:3, 2].copy()
    ordered = sorted(slices, key=lambda one: float(np.dot(one.position, normal)))
    places = np.array([one.position for one in ordered])
    dicom_checks.check_one_image_a_place(ordered, places @ normal, path)
    if len(ordered) == 1:
        step = normal * _thickness(ordered[0], path)
    else:
        dicom_checks.check_even(ordered, places @ normal, path)
        step = (places[-1] - places[0]) / (len(ordered) - 1)
        dicom_checks.check_upright(places, step, normal, path)
    affine[:3, 2] = step
    affine[:3, 3] = places[0]
    checks.check_affine(affine, path)
    rows, columns = slices[0].size
    return Stack(tuple(ordered), Grid((columns, rows, len(ordered)), RAS @ affine))


def plane_affine(one: Slice, path: Path) -> Affine:
    """From column, row and millimetres off the plane to the patient's millimetres (LPS)."""
    cosines = np.array(one.orientation).reshape(2, 3)
    lengths = np.linalg.norm(cosines, axis=1)
    right_angle = abs(float(cosines[0] @ cosines[1])) < checks.SHEAR_TOLERANCE
    if (np.abs(lengths - 1) > checks.SHEAR_TOLERANCE).any() or not right_angle:
        raise UserError(
            f"{path}: {one.file.name} has an ImageOrientationPatient of {list(one.orientation)}, "
            "which are not two directions at a right angle; export it again"
        )
    along_row, along_column = cosines / lengths[:, None]
    normal = np.cross(along_row, along_column)
    affine = np.eye(4)
    affine[:3, 0] = along_row * one.spacing[1]
    affine[:3, 1] = along_column * one.spacing[0]
    affine[:3, 2] = normal / np.linalg.norm(normal)
    affine[:3, 3] = one.position
    return affine


def _thickness(one: Slice, path: Path) -> float:
    """A single slice has no neighbour to measure to; its thickness is all there is."""
    if one.thickness is None:
        raise UserError(
            f"{path} has one slice, {one.file.name}, without SliceThickness, so its voxels have "
            "no depth; export the whole series"
        )
    return one.thickness
