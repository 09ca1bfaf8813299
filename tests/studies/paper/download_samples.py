"""The paper's data sets as they are downloaded: real names and real counts, tiny scans.

A voxel is 10 mm from left to right, so that the crop around a label bites on few voxels.
"""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from scans.dicom_samples import make_slice, save
from scans.itk_samples import write_nrrd

from tracoco.studies.paper.case_lists import PARTS, case_list

SHAPE = (20, 8, 4)
BLOCK = (slice(9, 11), slice(3, 5), slice(1, 3))
"""Where the label of every scan is."""


def names(dataset: str) -> list[str]:
    return [name for part in PARTS for name in case_list(dataset, part)]


def scans(ids: Iterable[str], value: int = 1) -> Iterator[tuple[str, NDArray[np.int16], "Label"]]:
    """A scan for each name, no two of them alike: noise, and a block that is brighter."""
    random = np.random.default_rng(0)
    label = np.zeros(SHAPE, np.uint8)
    label[BLOCK] = value
    for name in ids:
        image = random.integers(0, 100, SHAPE).astype(np.int16)
        image[BLOCK] += 100
        yield name, image, label


Label = NDArray[np.uint8]


def write_la(root: Path) -> Path:
    """NRRD, with 255 in the label as in the challenge."""
    space: dict[str, str | None] = {
        "sizes": " ".join(map(str, SHAPE)),
        "space directions": "(10,0,0) (0,0.625,0) (0,0,0.625)",
    }
    for name, image, label in scans(names("la"), 255):
        folder = root / "Training Set" / name
        folder.mkdir(parents=True)
        write_nrrd(folder / "lgemri.nrrd", space, image.tobytes("F"))
        for mask in ("laendo.nrrd", "lawall.nrrd"):
            write_nrrd(folder / mask, space | {"type": "uchar"}, label.tobytes("F"))
    return root


def write_pancreas(root: Path, numbers: Iterable[int]) -> Path:
    """A series of slices 2 mm apart for each case, and the labels in a folder of their own."""
    affine = np.diag([-10.0, -1.0, 2.0, 1.0])  # columns run to the left, rows to the back
    for name, image, label in scans(f"{number:04d}" for number in numbers):
        series = root / "Pancreas-CT" / f"PANCREAS_{name}" / "11-24-2015" / "Pancreas-40667"
        for index in range(SHAPE[2]):
            slice_ = make_slice(image[:, :, index].T.copy(), (0.0, 0.0, 2.0 * index))
            _place(slice_, name)
            save(slice_, series / f"1-{index + 1:03d}.dcm")
        write_nifti(root / "TCIA_pancreas_labels-02-05-2017" / f"label{name}.nii.gz", label, affine)
    return root


def write_brats(root: Path) -> Path:
    """Four sequences each; necrosis, oedema and enhancing tumour are 1, 2 and 4."""
    affine = np.diag([10.0, 1.0, 1.0, 1.0])
    for index, (name, image, label) in enumerate(scans(names("brats19"))):
        folder = root / "MICCAI_BraTS_2019_Data_Training" / ("LGG" if index % 3 else "HGG") / name
        tumour = label.copy()
        tumour[9, 3:5, 1], tumour[10, 3, 1] = 2, 4
        for kind in ("flair", "t1", "t1ce", "t2"):
            write_nifti(folder / f"{name}_{kind}.nii.gz", image, affine)
        write_nifti(folder / f"{name}_seg.nii.gz", tumour, affine)
    return root


def write_acdc(root: Path) -> Path:
    """Two frames a patient, with the right ventricle, the muscle and the left ventricle."""
    affine = np.diag([10.0, 1.0, 8.0, 1.0])
    for name, image, label in scans(names("acdc")):
        patient, frame = name.split("_frame")
        folder = root / "training" / patient
        number = "01" if frame == "01" else f"{int(patient[-3:]) % 9 + 8:02d}"
        heart = label.copy()
        heart[9, 3:5, :], heart[10, 3, :] = 2, 3
        write_nifti(folder / f"{patient}_frame{number}.nii.gz", image, affine)
        write_nifti(folder / f"{patient}_frame{number}_gt.nii.gz", heart, affine)
        (folder / "Info.cfg").write_text("ED: 1\nES: 12\nGroup: DCM\nHeight: 184.0\n")
    return root


def write_community(root: Path, dataset: str) -> Path:
    """The HDF5 files: zero mean and unit variance; slices of ACDC along the first axis."""
    place = {"la": "{}/mri_norm2.h5", "pancreas": "Pancreas/{}_norm.h5"}.get(dataset, "data/{}.h5")
    for name, image, label in scans(names(dataset)):
        file = root / place.format(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        turn = (2, 1, 0) if dataset in {"acdc", "brats19"} else (0, 1, 2)
        structures = label.copy()
        if dataset == "acdc":
            structures[9, 3:5], structures[10, 3] = 2, 3
        with h5py.File(file, "w") as arrays:
            arrays["image"] = ((image - image.mean()) / image.std()).transpose(turn)
            arrays["label"] = structures.transpose(turn)
    return root


def write_nifti(path: Path, array: NDArray[np.generic], affine: NDArray[np.float64]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = nib.Nifti1Image(array, affine).to_bytes()
    path.write_bytes(gzip.compress(content, compresslevel=1))


def _place(slice_: Dataset, name: str) -> None:
    """The spacing of a slice, and the series and patient that it is of."""
    slice_.PixelSpacing = [1.0, 10.0]  # between rows, between columns
    slice_.SeriesInstanceUID = f"1.2.3.{int(name)}"
    slice_.PatientID = f"PANCREAS_{name}"
