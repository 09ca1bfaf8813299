"""The paper's four data sets as people download them, found under the names of the case lists."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import raise_all
from tracoco.geometry import Box
from tracoco.project.cases import Case
from tracoco.scans.reader import has_label, scan_stem
from tracoco.scans.scan import Shape, Spacing
from tracoco.studies.paper.case_lists import listed_name


@dataclass(frozen=True, slots=True)
class LabelCrop:
    """A box around the label from left to right and from back to front; from feet to head all."""

    least_mm: float
    """A smaller box is widened to this on both sides alike,"""
    margin_mm: float
    """and then so much is added on each side; the scan's edge is the end of it."""

    def box(self, label: NDArray[Any], spacing_mm: Spacing) -> Box:
        """The voxels that stay of a canonical label map [X, Y, Z]; all if it is empty."""
        x, y, z = label.shape
        if not label.any():
            return Box((0, 0, 0), (x, y, z))
        sides = [self._side(label, axis, spacing_mm[axis]) for axis in (0, 1)]
        starts, stops = zip(*sides, (0, z), strict=True)
        size: Shape = tuple(b - a for a, b in zip(starts, stops, strict=True))
        return Box(starts, size)

    def _side(self, label: NDArray[Any], axis: int, side_mm: float) -> tuple[int, int]:
        others = tuple(other for other in range(3) if other != axis)
        held = np.flatnonzero(label.any(axis=others))
        first, last = int(held[0]), int(held[-1])
        short = max(0, round(self.least_mm / side_mm) - (last + 1 - first))
        margin = round(self.margin_mm / side_mm)
        start = first - short // 2 - margin
        stop = last + 1 + (short - short // 2) + margin
        return max(0, start), min(label.shape[axis], stop)


@dataclass(frozen=True, slots=True)
class Download:
    """The scans of a data set in one of the forms that it is passed on in."""

    form: str
    """In words, e.g. "folders of NRRD files"."""
    cases: tuple[Case, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Values of the plan that the paper decides, not the data."""
    notes: tuple[str, ...] = ()
    cropped: bool = False
    """Whether someone has cropped the scans around their labels already."""
    whole: bool = False
    """Whether all structures of a label are to be taken as one."""


def community_files(data: Path, plan: Mapping[str, Any], *, cropped: bool) -> Download:
    """The HDF5 files that the field passes on: image and label in one, without a spacing.

    Left Atrium has a folder a case, the others a file; slices of ACDC are parts of its volumes.
    """
    files = (file for file in data.rglob("*.h5") if file.parent.name != "slices")
    found = one_each(files, _community_name)
    cases = tuple(
        Case(name, (file,), file if has_label(file) else None) for name, file in found.items()
    )
    note = (
        "HDF5 files say nothing of the spacing: voxels count as 1 mm, so distances in mm are "
        "distances in voxels"
    )
    return Download("the community's HDF5 files", cases, plan, (note,), cropped=cropped)


def one_each(paths: Iterable[Path], name_of: Callable[[Path], str | None]) -> dict[str, Path]:
    """Paths by name, sorted; two of one name are an error, one without a name is left out."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        name = name_of(path)
        if name is not None and not path.name.startswith("."):
            found[name].append(path.absolute())
    raise_all(
        [
            f"{name} is there more than once: {', '.join(map(str, sorted(copies)))}; keep one"
            for name, copies in sorted(found.items())
            if len(copies) > 1
        ]
    )
    return {name: paths[0] for name, paths in sorted(found.items())}


def existing(path: Path) -> Path | None:
    """The path, if there is such a file."""
    return path if path.is_file() else None


def _community_name(file: Path) -> str:
    return file.parent.name if file.stem == "mri_norm2" else listed_name(scan_stem(file))


LA_SPACING_MM = (0.625, 0.625, 0.625)
LA_CLASS_NAMES = {1: "left atrium", 255: "left atrium"}
"""1 in the community's files, 255 in the challenge's."""
LA_LABEL_CROP = LabelCrop(least_mm=70.0, margin_mm=9.375)
"""112 voxels, and 15 more on each side where the field draws 10 to 19."""


def find_la(data: Path) -> Download:
    """`ID/lgemri.nrrd` with `ID/laendo.nrrd`, or the community's `ID/mri_norm2.h5`."""
    images = one_each(data.rglob("lgemri.nrrd"), lambda file: file.parent.name)
    if not images:
        return community_files(data, {}, cropped=True)
    cases = tuple(
        Case(name, (image,), existing(image.with_name("laendo.nrrd")))
        for name, image in images.items()
    )
    return Download("folders of NRRD files", cases, {"spacing_mm": LA_SPACING_MM})


PANCREAS_SPACING_MM = (1.0, 1.0, 1.0)
PANCREAS_WINDOW = (-125.0, 275.0)
"""Hounsfield units, Sec. "Datasets"."""
PANCREAS_LABEL_CROP = LabelCrop(least_mm=96.0, margin_mm=25.0)
WITHDRAWN = frozenset({"image0025", "image0070"})
"""No longer in the archive: the patient of image0002 once more, cropped otherwise."""

_IMAGE = re.compile(r"PANCREAS_(\d{4})(\.nii|\.nii\.gz|\.zip)?", re.IGNORECASE)
_LABEL = re.compile(r"label(\d{4})\.nii(\.gz)?", re.IGNORECASE)


def find_pancreas(data: Path) -> Download:
    """`PANCREAS_0001` (folder or zip of a series, or NIfTI) with `label0001.nii.gz`, or HDF5."""
    images = one_each(data.rglob("*"), lambda path: _listed(_IMAGE, path))
    if not images:
        found = community_files(data, {}, cropped=True)
        return replace(found, notes=(*found.notes, *_about({case.id for case in found.cases})))
    labels = one_each(data.rglob("*"), lambda path: _listed(_LABEL, path))
    cases = tuple(Case(name, (image,), labels.get(name)) for name, image in images.items())
    plan = {"spacing_mm": PANCREAS_SPACING_MM, "window": PANCREAS_WINDOW}
    return Download("DICOM series and NIfTI labels", cases, plan, _about(images.keys()))


def _about(names: Collection[str]) -> tuple[str, ...]:
    if not WITHDRAWN & set(names):
        return (f"without {' and '.join(sorted(WITHDRAWN))}, which the archive has withdrawn",)
    return (
        "image0002 (training), image0025 (test) and image0070 (training) are one patient: "
        "the archive has withdrawn the last two, the field's lists have them still",
    )


def _listed(pattern: re.Pattern[str], path: Path) -> str | None:
    match = pattern.fullmatch(path.name)
    return f"image{match[1]}" if match else None


BRATS19_SPACING_MM = (1.0, 1.0, 1.0)
SEQUENCE = "_flair"
SUFFIXES = (".nii.gz", ".nii")


def find_brats19(data: Path) -> Download:
    """`HGG` and `LGG` with `CASE/CASE_flair.nii.gz` and `CASE_seg.nii.gz`, or HDF5."""
    images = one_each(data.rglob(f"*{SEQUENCE}.nii*"), _brats19_case)
    if not images:
        return community_files(data, {}, cropped=False)
    cases = tuple(Case(name, (image,), _brats19_label(image)) for name, image in images.items())
    notes = ("of the four sequences, FLAIR alone is taken; all of the tumour is one structure",)
    plan = {"spacing_mm": BRATS19_SPACING_MM}
    return Download("folders of NIfTI files", cases, plan, notes, whole=True)


def _brats19_case(image: Path) -> str | None:
    for suffix in SUFFIXES:
        if image.name.endswith(SEQUENCE + suffix):
            return image.name.removesuffix(SEQUENCE + suffix)
    return None


def _brats19_label(image: Path) -> Path | None:
    """The label, packed or not, whatever its image is."""
    files = (image.with_name(f"{_brats19_case(image)}_seg{suffix}") for suffix in SUFFIXES)
    return next((file for file in files if existing(file)), None)


_FRAME = re.compile(r"(patient\d{3})_frame(\d+)(\.nii(?:\.gz)?)")


def find_acdc(data: Path) -> Download:
    """`patient001/patient001_frame01.nii.gz` with `..._frame01_gt.nii.gz`, or HDF5."""
    images = one_each(data.rglob("patient*_frame*.nii*"), _numbered)
    if not images:
        # There the slices are counted along the first axis, and nothing in the file says so.
        found = community_files(data, {"dimensions": 2, "slice_axis": 0}, cropped=False)
        return replace(found, cases=tuple(map(_grouped, found.cases)))
    frames: dict[str, list[Path]] = defaultdict(list)
    for name, image in images.items():  # sorted, so the earlier frame comes first
        frames[name.partition("_")[0]].append(image)
    raise_all(_acdc_problems(frames))
    cases = tuple(
        Case(f"{patient}_frame{number:02d}", (image,), _acdc_label(image), patient)
        for patient, both in frames.items()
        for number, image in enumerate(both, start=1)
    )
    notes = (
        "frame01 is the earlier of a patient's two labelled frames, frame02 the later one",
        "slices are not resampled: each scan keeps its own spacing, as in the paper",
    )
    plan = {"dimensions": 2, "slice_axis": 2, "spacing_mm": (None, None, None)}
    return Download("folders of NIfTI files", cases, plan, notes)


def _numbered(image: Path) -> str | None:
    match = _FRAME.fullmatch(image.name)
    return f"{match[1]}_{int(match[2]):04d}" if match else None


def _acdc_label(image: Path) -> Path | None:
    suffix = ".nii.gz" if image.name.endswith(".nii.gz") else ".nii"
    return existing(image.with_name(f"{image.name.removesuffix(suffix)}_gt{suffix}"))


def _grouped(case: Case) -> Case:
    return replace(case, group=case.id.partition("_")[0])


def _acdc_problems(frames: dict[str, list[Path]]) -> list[str]:
    return [
        f"{patient} has {len(images)} frames, the data set two: "
        f"{', '.join(image.name for image in images)}. Keep the two that have labels"
        for patient, images in frames.items()
        if len(images) != 2
    ]
