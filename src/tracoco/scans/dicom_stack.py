"""Slices put on one grid, or the reason why they do not lie on one.

The order is that of the positions along the normal of the slices: names and instance numbers
follow the scanner's or the archive's taste. The distance is measured between the positions too;
the thickness of a slice says how much tissue it shows, not how far the next one is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.dicom_contents import Slice
from tracoco.scans.scan import SAME_GRID, Affine, Grid
from tracoco.scans.stored import SHEAR_TOLERANCE, check_affine

ROUNDING_MM = 0.06
"""Positions are written with few digits, some with one: half of its last digit, and a little."""
SAME_PLACE_MM = 0.01
"""Slices nearer than this lie at one place; the thinnest slices of a scanner are 20 times apart."""
SAME_ORIENTATION = 0.001
"""Largest difference between cosines: 0.25 mm at the far side of a slice of 250 mm."""

Points = NDArray[np.float64]


def check_any(slices: Sequence[Slice], path: Path) -> None:
    """Refuse a folder without an image."""
    if not slices:
        raise UserError(
            f"{path} has no DICOM image in it; give the folder, zip or file that holds the slices. "
            "Files older than the standard (no DICM at byte 128) are not seen: convert them"
        )


def check_one_series(slices: Sequence[Slice], path: Path) -> None:
    """Refuse a folder of several series: which one is meant cannot be told from here."""
    counts = Counter(s.series for s in slices)
    if len(counts) < 2:
        return
    first = {s.series: s for s in reversed(slices)}
    lines = [f"\n  {uid}: {n} slices, e.g. {first[uid].file.name}" for uid, n in counts.items()]
    raise UserError(
        f"{path} has {len(counts)} series; give the folder of one, or sort them into a folder "
        "each:" + "".join(lines)
    )


def check_alike(slices: Sequence[Slice], path: Path) -> None:
    """Refuse slices that differ in what the slices of one volume share."""
    _one_of("sizes", [f"{s.size[1]} x {s.size[0]}" for s in slices], path)
    _one_of("frames of reference", [s.reference for s in slices], path)
    spacing = np.array([s.spacing for s in slices])
    if (np.abs(spacing / spacing[0] - 1) > 1e-3).any():
        _one_of("pixel spacings", [f"{s.spacing[1]:g} x {s.spacing[0]:g} mm" for s in slices], path)
    turned = np.abs(np.array([s.orientation for s in slices]) - slices[0].orientation).max(axis=1)
    if turned.max() > SAME_ORIENTATION:
        cosines = [", ".join(f"{value:.3f}" for value in s.orientation) for s in slices]
        _one_of("orientations", cosines, path)


def check_one_image_a_place(ordered: Sequence[Slice], heights: Points, path: Path) -> None:
    """Refuse times, echoes or copies that share a place."""
    alone = np.append(True, np.diff(heights) > SAME_PLACE_MM)
    places = int(np.count_nonzero(alone))
    if places == len(ordered):
        return
    copies = len(ordered) - len({(s.instance, s.frame) for s in ordered})
    fewest, *_, most = sorted(Counter(np.cumsum(alone).tolist()).values()) * 2
    each = str(most) if fewest == most else f"{fewest} to {most}"
    cause = (
        f"{copies} of them are copies of others: remove them"
        if copies
        else "several times, echoes or reconstructions. Sort them into a folder each, and give one"
    )
    raise UserError(
        f"{path} has {len(ordered)} images at {places} positions, {each} at each: {cause}"
    )


def check_even(ordered: Sequence[Slice], heights: Points, path: Path) -> None:
    """Refuse missing slices, and slices at changing distances."""
    gaps = np.diff(heights)
    if off_line_mm(heights[:, None]) <= _tolerance(float(gaps.mean())):
        return
    base = float(np.median(gaps[gaps < 1.1 * gaps.min()]))
    steps = np.rint(gaps / base)
    if (np.abs(gaps / base - steps) < SAME_GRID).all() and steps.max() > 1:
        wide = np.flatnonzero(steps > 1)
        raise UserError(
            f"{path} lacks {int(steps.sum()) - len(gaps)} slices: {len(ordered)} slices lie "
            f"{base:.2f} mm apart but for {len(wide)} gaps of up to {gaps.max():.2f} mm, the first "
            f"between {ordered[wide[0]].file.name} and {ordered[wide[0] + 1].file.name}. "
            "Export the series again, in full"
        )
    raise UserError(
        f"{path} has unevenly spaced slices: {len(ordered)} slices lie {gaps.min():.2f} to "
        f"{gaps.max():.2f} mm apart. Export a reconstruction with one distance, or resample it to "
        "one, e.g. with dcm2niix"
    )


def check_upright(places: Points, step: Points, normal: Points, path: Path) -> None:
    """Refuse slices that do not lie above one another: a tilted gantry, or planned one by one."""
    apart = off_line_mm(places)
    if apart > 2 * _tolerance(float(np.linalg.norm(step))):
        raise UserError(
            f"{path} has slices that lie up to {apart:.2f} mm beside one another, not in one "
            "column; convert it to NIfTI with a tool that resamples them"
        )
    angle = np.arccos(np.clip(step @ normal / np.linalg.norm(step), -1, 1))
    if np.sin(angle) > SHEAR_TOLERANCE:
        raise UserError(
            f"{path} was taken with a tilted gantry: each slice is shifted, by "
            f"{np.degrees(angle):.1f} degrees. Resample it to right angles, "
            "e.g. with dcm2niix, and give the NIfTI file"
        )


def off_line_mm(places: Points) -> float:
    """How far places [N, axes] lie from even steps along a line, at the worst.

    The line is fitted to all of them: the first and the last are rounded as much as the others.
    """
    indices = np.arange(len(places))
    slope, start = np.polyfit(indices, places, 1)
    return float(np.linalg.norm(places - (start + indices[:, None] * slope), axis=1).max())


def _tolerance(step: float) -> float:
    return min(ROUNDING_MM, SAME_GRID * step)


def _one_of(what: str, found: Sequence[str], path: Path) -> None:
    counts = Counter(found)
    if len(counts) > 1:
        some = "; ".join(f"{value} ({n} slices)" for value, n in counts.most_common(4))
        raise UserError(
            f"{path} has slices of {len(counts)} {what}: {some}. "
            "Sort them into a folder each, and give one"
        )


RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""DICOM counts millimetres to the left and to the back, the package to the right and the front."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The slices from one end to the other, and their grid [columns, rows, slices]."""

    slices: tuple[Slice, ...]
    grid: Grid


def stack_slices(slices: Sequence[Slice], path: Path) -> Stack:
    """Put slices in order and on a grid; anything that would place one wrongly is refused."""
    check_any(slices, path)
    check_one_series(slices, path)
    check_alike(slices, path)
    affine = plane_affine(slices[0], path)
    normal = affine[:3, 2].copy()
    ordered = sorted(slices, key=lambda one: float(np.dot(one.position, normal)))
    places = np.array([one.position for one in ordered])
    check_one_image_a_place(ordered, places @ normal, path)
    if len(ordered) == 1:
        step = normal * _thickness(ordered[0], path)
    else:
        check_even(ordered, places @ normal, path)
        step = (places[-1] - places[0]) / (len(ordered) - 1)
        check_upright(places, step, normal, path)
    affine[:3, 2] = step
    affine[:3, 3] = places[0]
    check_affine(affine, path)
    rows, columns = slices[0].size
    return Stack(tuple(ordered), Grid((columns, rows, len(ordered)), RAS @ affine))


def plane_affine(one: Slice, path: Path) -> Affine:
    """From column, row and millimetres off the plane to the patient's millimetres (LPS)."""
    cosines = np.array(one.orientation).reshape(2, 3)
    lengths = np.linalg.norm(cosines, axis=1)
    right_angle = abs(float(cosines[0] @ cosines[1])) < SHEAR_TOLERANCE
    if (np.abs(lengths - 1) > SHEAR_TOLERANCE).any() or not right_angle:
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
