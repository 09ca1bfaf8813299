"""Where the scans of each real data set lie, and which case each of them is."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.material import write_nifti
from tracoco.project.cases import Case
from tracoco.scans.reader import read_image, read_label, scan_stem

NIFTI = ".nii.gz"


def paired_folders(root: Path) -> dict[str, Case]:
    """`imagesTr` and `labelsTr` with files of the same names."""
    return {
        name: Case(name, (image,), root / "labelsTr" / image.name)
        for image in sorted((root / "imagesTr").glob(f"*{NIFTI}"))
        for name in (scan_stem(image),)
    }


def patient_files(folder: Path, names: Iterable[str]) -> dict[str, Case]:
    """HDF5 files with an image and its label; what a name has before `_` says whose they are."""
    files = {name: folder / f"{name}.h5" for name in names}
    return {name: Case(name, (file,), file, name.partition("_")[0]) for name, file in files.items()}


def with_spacing(files: dict[str, Path], spacing_mm: float, out: Path) -> dict[str, Case]:
    """HDF5 files written again as NIfTI, which can say how long a voxel is.

    Without it a voxel would count as 1 mm, and every distance in mm would be another number.
    """
    return {name: _written(name, file, spacing_mm, out) for name, file in files.items()}


def _written(name: str, file: Path, spacing_mm: float, out: Path) -> Case:
    image, label = (out / kind / f"{name}{NIFTI}" for kind in ("images", "labels"))
    sides = (spacing_mm, spacing_mm, spacing_mm)
    write_nifti(image, read_image(file).array[0], sides)
    write_nifti(label, read_label(file).array.astype(np.uint8), sides)
    return Case(name, (image,), label)
