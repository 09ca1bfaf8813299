"""What makes the slices of a folder no volume, and what their owner can do about it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import checks
from tracoco.scans.dicom_slice import Slice
from tracoco.scans.scan import SAME_GRID

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
    lines = [
        f"\n  {uid} ({_printable(first[uid].description)}): {n} slices, e.g. {first[uid].file.name}"
        for uid, n in counts.items()
    ]
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
    if np.sin(angle) > checks.SHEAR_TOLERANCE:
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


def _printable(text: str) -> str:
    kept = "".join(c for c in text if c.isprintable())[:40].strip()
    return kept or "no description"
