"""The real data sets: where their scans are, how they are divided, and what is planned for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.real import parts
from benchmarks.real.partial import IGNORE, every_fourth_slice
from benchmarks.real.scans import paired_folders, patient_files, with_spacing
from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.splits import Splits
from tracoco.studies.paper.downloads import CROPPED

Cases = dict[str, Case]
Find = Callable[[Path, Path], tuple[Cases, Splits]]
"""Given the folder of all data, and one for scans that have to be written anew."""


@dataclass(frozen=True, slots=True)
class RealData:
    """How the project of one data set is made."""

    preset: str
    """Its crop is the plan's as well, so that the two cannot differ."""
    find: Find
    class_names: Mapping[int, str]
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Values that are chosen here; the others follow from the scans."""
    notes: tuple[str, ...] = ()
    watermark: str = ""
    ignore: int | None = None
    """Value of voxels that are not drawn."""


def hippocampus(data: Path, _: Path) -> tuple[Cases, Splits]:
    """Small MR volumes of 1 mm."""
    cases = paired_folders(data / "hippocampus")
    return cases, parts.hippocampus(cases)


def la(data: Path, out: Path) -> tuple[Cases, Splits]:
    """The field's files with every axis halved: 1.25 mm, which they do not say."""
    root, names = data / "la", _names(data / "la" / "train.list")
    files = {name: root / "half" / name / "mri_norm2.h5" for name in names}
    return with_spacing(files, 1.25, out), parts.la(names)


def acdc(data: Path, _: Path) -> tuple[Cases, Splits]:
    """The field's files with both axes of a slice halved; their spacing is lost."""
    root = data / "acdc"
    splits = parts.acdc(_names(root / "train.list"), _names(root / "val.list"))
    return patient_files(root / "half" / "data", splits.ids), splits


def brats19(data: Path, out: Path) -> tuple[Cases, Splits]:
    """The field's files with every axis halved: 2 mm, which they do not say."""
    root = data / "brats19"
    splits = parts.brats19(_names(root / "train.txt"), _names(root / "val.txt"))
    files = {name: root / "half" / "data" / f"{name}.h5" for name in splits.ids}
    return with_spacing(files, 2.0, out), splits


def btcv_pancreas(data: Path, _: Path) -> tuple[Cases, Splits]:
    """CT around the pancreas, in 8 bits."""
    cases = paired_folders(data / "btcv_pancreas")
    return cases, parts.btcv_pancreas(cases)


def _tuning(find: Find, count: int, data: Path, out: Path) -> tuple[Cases, Splits]:
    cases, splits = find(data, out)
    return cases, parts.tuning(splits, count)


def _names(file: Path) -> list[str]:
    """A name a line, in the order of the file."""
    if not file.is_file():
        raise UserError(f"{file} does not exist; give the folder of the real data")
    return file.read_text(encoding="utf-8").split()


REPORTED = {
    "la": RealData(
        "la-cpu",
        la,
        {1: "left atrium"},
        # A third of the full resolution's voxels along each axis: 64 x 48 x 29 of them.
        {"spacing_mm": (1.875, 1.875, 1.875)},
        watermark=CROPPED,
    ),
    "acdc": RealData(
        "acdc-cpu",
        acdc,
        {1: "RV", 2: "Myo", 3: "LV"},
        {"dimensions": 2, "slice_axis": 0},
        ("the spacing is not known: distances count voxels of half the resolution, not mm",),
    ),
    "brats19": RealData(
        "brats19-cpu", brats19, {1: "whole tumour"}, {"spacing_mm": (4.0, 4.0, 4.0)}
    ),
    "btcv-pancreas": RealData(
        "btcv-pancreas-cpu",
        btcv_pancreas,
        {1: "pancreas"},
        # Each scan was brought to 8 bits by a window of its own: the pancreas lies at 78 in one and
        # at 187 in another. So intensities are normalised scan by scan, not by a common window.
        {"spacing_mm": (3.0, 3.0, 3.0)},
        watermark=CROPPED,
    ),
    "hippocampus": RealData("hippocampus-cpu", hippocampus, {1: "anterior", 2: "posterior"}),
}
TUNING_CASES = {"la": 16, "acdc": 20, "brats19": 10, "btcv-pancreas": 6, "hippocampus": 20}
"""Training cases that `NAME-tuning` is tested on; it has none of the reported cases."""
PARTIAL = {
    "hippocampus-slices": replace(
        REPORTED["hippocampus"], find=partial(every_fourth_slice, hippocampus), ignore=IGNORE
    )
}
"""Data sets of which some labels are drawn in part."""
DATA_SETS = (
    REPORTED
    | PARTIAL
    | {
        f"{name}-tuning": replace(REPORTED[name], find=partial(_tuning, REPORTED[name].find, count))
        for name, count in TUNING_CASES.items()
    }
)
