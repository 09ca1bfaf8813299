"""A first look at one case: its header, its intensities, and the values of its label."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.content import content_box
from tracoco.project.intensities import Intensities, measure, sample_foreground
from tracoco.project.problems import collected
from tracoco.scans.reader import read_grid, read_grids, read_images, read_label
from tracoco.scans.scan import SAME_GRID, Scan, ScanHeader, Shape, Spacing, voxels_apart

MOST_VALUES = 256
"""A class index is a byte in the store."""


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """An image as its file describes it, axes in canonical order."""

    id: str
    shape: Shape
    spacing_mm: Spacing
    channels: int
    placed: bool = True
    """Whether the file states its spacing; if not, 1 mm is assumed."""
    intensities: tuple[Intensities, ...] = ()
    """One a channel."""
    content_shape: Shape | None = None
    """Without the margin in which nothing changes; None where only the header is known."""


@dataclass(frozen=True, slots=True)
class LookTask:
    """A case to look at; its label is opened only if it has one."""

    case: Case
    foreground: int
    """How many foreground voxels to bring back."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What was seen; without facts, the image could not be read."""

    facts: CaseFacts | None = None
    label_voxels: dict[int, int] = field(default_factory=dict)
    """Voxels of each value of the label."""
    foreground: NDArray[np.float32] | None = None
    """Intensities [C, N] of some voxels of structures."""
    problems: tuple[str, ...] = ()


def look_at(task: LookTask) -> Look:
    """Read an image and its label, one case in memory; problems are noted, not raised."""
    problems: list[str] = []
    case, header, scan, facts = task.case, None, None, None
    with collected(problems):
        header = read_grids(case.images)
        facts = _facts(case.id, header)  # with the header alone, channels can be compared
        scan = read_images(case.images)
        facts = _facts(case.id, header, scan)
    values: dict[int, int] = {}
    foreground = None
    if case.label:
        with collected(problems):
            label = _checked_label(case.label, header)
            values = _value_counts(label, case.label)
            if scan and task.foreground:
                foreground = sample_foreground(scan.array, label, case.id, task.foreground)
    return Look(facts, values, foreground, tuple(problems))


def lost_look(task: LookTask, how: str) -> Look:
    """For a case whose process ended while it was looked at."""
    return Look(problems=(death_of(task.case, how),))


def death_of(case: Case, how: str) -> str:
    """What is told of a case whose process ended."""
    return f"case '{case.id}': the process that read {case.images[0]} {how}"


def check_geometry(image: ScanHeader, label: ScanHeader) -> None:
    """Refuse a label that does not lie on the voxels of its image."""
    if image.shape != label.shape:
        raise UserError(
            f"{label.source} has the shape {label.shape}, its image {image.source} "
            f"{image.shape}; resample the label to the grid of the image"
        )
    apart = voxels_apart(image.affine, label.affine, image.shape)
    if apart > SAME_GRID:
        raise UserError(
            f"{label.source} lies up to {apart:.3g} voxels away from its image {image.source}, "
            "by the affines of both; resample the label, or copy the affine if only that is wrong"
        )


def _facts(id_: str, header: ScanHeader, scan: Scan | None = None) -> CaseFacts:
    facts = CaseFacts(id_, header.shape, header.spacing_mm, header.channels, header.placed)
    if scan is None:
        return facts
    intensities = tuple(measure(channel, id_) for channel in scan.array)
    x, y, z = content_box(scan.array).size
    return replace(facts, intensities=intensities, content_shape=(x, y, z))


def _checked_label(path: Path, image: ScanHeader | None) -> NDArray[np.integer[Any]]:
    if image:
        check_geometry(image, read_grid(path))
    return read_label(path).array


def _value_counts(label: NDArray[np.integer[Any]], path: Path) -> dict[int, int]:
    values, counts = np.unique(label, return_counts=True)
    if values[0] < 0 or len(values) > MOST_VALUES:
        raise UserError(
            f"{path} is not a label map: it has {len(values)} values from {values[0]} to "
            f"{values[-1]}; at most {MOST_VALUES} from 0 on are allowed. Check that it is no image"
        )
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
