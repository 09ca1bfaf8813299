"""What comes of a prediction: labels and maps of a scan, in memory or written on its grid.

Segmentations for other programs may be written beside the labels.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.components import remove_small_components
from tracoco.errors import UserError
from tracoco.scans.nifti import write_map
from tracoco.scans.reader import SEGMENTATION, write_label
from tracoco.scans.scan import Grid, Scan, Structure, to_grid
from tracoco.text import html_table, number

MAPS = ("probability", "disagreement", "entropy")
"""Maps that can be had beside the label, in the order in which they are written."""

DICOM_SEG, RTSTRUCT, SEG_NRRD = "dicom-seg", "rtstruct", "seg-nrrd"
FILE_NAMES = {
    DICOM_SEG: "{}.dcm",
    RTSTRUCT: "{}_contours.dcm",
    SEG_NRRD: f"{{}}{SEGMENTATION}",
}
"""Of what is written beside a label; a map is called after its kind."""


@dataclass(frozen=True, slots=True, eq=False)
class ByteMap:
    """Values from 0 to `largest` in a byte each, so that they are off by 1/510 of it at most."""

    levels: NDArray[np.uint8]
    """[X, Y, Z], or one such volume for each class."""
    largest: float

    @property
    def values(self) -> NDArray[np.float32]:
        """The values that the levels stand for."""
        return self.levels * np.float32(self.step)

    @property
    def step(self) -> float:
        """The value of level 1."""
        return self.largest / 255


def wanted_maps(text: str) -> tuple[str, ...]:
    """The maps of a list like `label,probability`; the label is made anyway."""
    names = {name.strip() for name in text.split(",")} - {"label"}
    unknown = sorted(names - set(MAPS))
    if unknown:
        raise UserError(
            f"--save {text}: '{unknown[0]}' is unknown; choose from label, {', '.join(MAPS)}"
        )
    return tuple(name for name in MAPS if name in names)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What was measured of one scan; a manifest keeps it."""

    disagreement: float | None
    """0 where two networks give the same labels, 1 where they share no voxel of any structure.
    None for a method with one network."""
    entropy: float
    """From 0 to 1."""
    found: bool
    """Whether the prediction has any structure."""
    features: str
    """Numbers with blanks between them: one line of a manifest and not hundreds."""

    @property
    def vector(self) -> NDArray[np.float64]:
        """The features as numbers."""
        return np.array(self.features.split(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Label values [X, Y, Z] in canonical order (RAS+); `scan` is None for a plain array."""

    label: NDArray[np.integer[Any]]
    scan: Scan | None
    maps: Mapping[str, ByteMap] = field(default_factory=dict)
    """Those that were asked for, by name: see `Predictor.__call__`."""
    uncertainty: Uncertainty | None = None
    """If it was asked for."""
    structures: tuple[Structure, ...] = ()  # what the values stand for

    def without_small_components(self) -> "Prediction":
        """The same without components that are too small to be believed (CCT)."""
        return replace(self, label=remove_small_components(self.label))

    def on_grid(self) -> NDArray[np.integer[Any]]:
        """The labels in the axis order of the file or image that the scan came from."""
        labels: NDArray[np.integer[Any]] = to_grid(self.label, self._grid())
        return labels

    def write(self, path: Path | str) -> None:
        """Write the labels, with names where the format has them, on the grid of the scan."""
        write_label(Path(path), self.label, self._grid(), self.structures)

    def write_map(self, name: str, path: Path) -> None:
        """Write one of the maps on that grid, as NIfTI; classes are its fourth axis."""
        found = self.maps[name]
        write_map(path, found.levels, found.step, self._grid())

    def write_beside(self, files: Mapping[str, Path], image: Path) -> None:
        """Write segmentations for other programs, once the label itself is there.

        Args:
            files: where each goes, by its kind.
            image: the scan's file or folder, which objects of DICOM refer to.
        """
        if SEG_NRRD in files:
            self.write(files[SEG_NRRD])
        if DICOM_SEG in files:
            from tracoco.scans.dicom_seg import write_segmentation  # noqa: PLC0415 - takes a while

            names = {structure.value: structure.name for structure in self.structures}
            write_segmentation(files[DICOM_SEG], self.label, names, image)
        if RTSTRUCT in files:
            from tracoco.scans.rtstruct import write_structure_set  # noqa: PLC0415 - the same

            structures = {structure.value: structure for structure in self.structures}
            write_structure_set(files[RTSTRUCT], self.label, structures, image)

    def _repr_html_(self) -> str:
        """For a notebook: the slice through the middle of the structures, and their sizes."""
        from tracoco.slices import draw_slice  # noqa: PLC0415 - matplotlib is for notebooks alone

        has_geometry = self.scan is not None and self.scan.has_geometry
        spacing = self.scan.spacing_mm if self.scan else (1.0, 1.0, 1.0)
        image = self.scan.array[0] if self.scan else np.zeros(self.label.shape, np.float32)
        picture = f"<img src='{draw_slice(image, self.label, spacing)}'>"
        values, sizes = np.unique(self.label[self.label != 0], return_counts=True)
        voxel_ml = math.prod(spacing) / 1000
        rows = [
            (value, f"{size:,}", number(size * voxel_ml if has_geometry else None))
            for value, size in zip(values, sizes, strict=True)
        ]
        table = html_table(("label", "voxels", "ml"), rows) if rows else "no structure found"
        return f"<div>{picture}</div>{table}"

    def _grid(self) -> Grid:
        if self.scan is None:
            raise ValueError("a prediction of an array has no file's grid to be written on")
        return self.scan.grid


def check_series(image: Path, kinds: Collection[str], structures: Sequence[Structure]) -> None:
    """Refuse a scan that no DICOM object of these kinds can belong to."""
    asked = [kind for kind in (DICOM_SEG, RTSTRUCT) if kind in kinds]
    if not asked:
        return
    from tracoco.scans import dicom_seg, rtstruct  # noqa: PLC0415 - they take a while

    if DICOM_SEG in asked:
        dicom_seg.need_highdicom()
    if not image.is_dir() and image.suffix.lower() != ".zip":
        options = " and ".join(f"--{kind}" for kind in asked)
        raise UserError(f"{image} is no DICOM series, which {options} writes for; leave it out")
    if DICOM_SEG in asked:
        dicom_seg.check_series(image, {each.value: each.name for each in structures})
    if RTSTRUCT in asked:
        rtstruct.check_source(image)
