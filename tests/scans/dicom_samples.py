"""Small DICOM series, written with pydicom alone."""

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import (
    CTImageStorage,
    EnhancedMRImageStorage,
    ExplicitVRLittleEndian,
    generate_uid,
)

from tracoco.scans.scan import Scan

AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
TURN = np.deg2rad(20)
OBLIQUE = (float(np.cos(TURN)), float(np.sin(TURN)), 0.0, 0.0, 0.0, -1.0)
"""Columns run towards the feet, rows from right to left and a little to the back."""
SPACING = (0.5, 0.75)
ORIGIN = (-10.0, 20.0, 5.0)
SERIES, STUDY, FRAME = "1.2.3.4", "1.2.3.5", "1.2.3.6"
PATIENT = "Doe^Jane"
VOXELS = np.arange(4 * 3 * 5, dtype=np.int16).reshape(4, 3, 5) - 7
"""Slices, rows, columns."""

Change = Callable[[int, Dataset], None]


def normal_of(orientation: Sequence[float]) -> NDArray[np.float64]:
    return np.cross(orientation[:3], orientation[3:])


def position(index: float, orientation: Sequence[float] = AXIAL, step: float = 2.0) -> list[float]:
    return [float(v) for v in np.array(ORIGIN) + index * step * normal_of(orientation)]


def make_slice(pixels: NDArray[np.int16], place: Sequence[float]) -> Dataset:
    """A CT slice; its thickness is not the distance to the next one, as in half of all series."""
    slice_ = Dataset()
    slice_.file_meta = FileMetaDataset()
    slice_.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    slice_.file_meta.MediaStorageSOPClassUID = slice_.SOPClassUID = CTImageStorage
    slice_.file_meta.MediaStorageSOPInstanceUID = slice_.SOPInstanceUID = generate_uid()
    slice_.SeriesInstanceUID, slice_.StudyInstanceUID = SERIES, STUDY
    slice_.FrameOfReferenceUID, slice_.PositionReferenceIndicator = FRAME, ""
    slice_.PatientName, slice_.PatientID, slice_.PatientSex = PATIENT, "4711", "F"
    slice_.PatientBirthDate, slice_.StudyDate, slice_.StudyTime = "19700101", "20200101", "120000"
    slice_.AccessionNumber = slice_.StudyID = slice_.ReferringPhysicianName = ""
    slice_.Modality, slice_.SeriesDescription = "CT", "chest"
    slice_.InstanceNumber = 1
    slice_.Rows, slice_.Columns = pixels.shape
    slice_.PixelSpacing, slice_.SliceThickness = list(SPACING), 3.0
    slice_.ImageOrientationPatient, slice_.ImagePositionPatient = list(AXIAL), list(place)
    slice_.SamplesPerPixel, slice_.PhotometricInterpretation = 1, "MONOCHROME2"
    slice_.BitsAllocated, slice_.BitsStored, slice_.HighBit = 16, 16, 15
    slice_.PixelRepresentation = 1
    slice_.PixelData = pixels.tobytes()
    return slice_


def save(slice_: Dataset, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    slice_.save_as(path, enforce_file_format=True)
    return path


def write_series(
    folder: Path,
    voxels: NDArray[np.int16] = VOXELS,
    orientation: Sequence[float] = AXIAL,
    change: Change | None = None,
    name: Callable[[int], str] = "{:02d}.dcm".format,
) -> Path:
    """A series with one file a slice; `change` may spoil each before it is saved."""
    for index, pixels in enumerate(voxels):
        slice_ = make_slice(pixels, position(index, orientation))
        slice_.ImageOrientationPatient = list(orientation)
        if change:
            change(index, slice_)
        save(slice_, folder / name(index))
    return folder


def make_frames(voxels: NDArray[np.int16] = VOXELS) -> Dataset:
    """The same slices as frames of one file, the last one first."""
    whole = make_slice(voxels[0], ORIGIN)
    whole.file_meta.MediaStorageSOPClassUID = whole.SOPClassUID = EnhancedMRImageStorage
    for keyword in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        delattr(whole, keyword)
    whole.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL", "NONE"]
    measures, plane, shared = Dataset(), Dataset(), Dataset()
    measures.PixelSpacing, measures.SliceThickness = list(SPACING), 3.0
    plane.ImageOrientationPatient = list(AXIAL)
    shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = [measures], [plane]
    whole.SharedFunctionalGroupsSequence = [shared]
    groups = []
    for index in reversed(range(len(voxels))):
        place, values, group = Dataset(), Dataset(), Dataset()
        place.ImagePositionPatient = position(index)
        values.RescaleSlope, values.RescaleIntercept, values.RescaleType = 2.0, index, "US"
        group.PlanePositionSequence, group.PixelValueTransformationSequence = [place], [values]
        groups.append(group)
    whole.PerFrameFunctionalGroupsSequence = groups
    whole.NumberOfFrames = len(voxels)
    whole.PixelData = voxels[::-1].tobytes()
    return whole


def pack(folder: Path, path: Path, place: str = "study/series/") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, place + str(file.relative_to(folder)))
    return path


def value_at(
    array: NDArray[np.float32], affine: NDArray[np.float64], lps: Sequence[float]
) -> float:
    """The voxel at a point that DICOM counts in millimetres to the left, back and head."""
    left, back, head = lps
    index = np.linalg.solve(affine, [-left, -back, head, 1.0])[:3]
    nearest = np.rint(index).astype(int)
    assert np.abs(index - nearest).max() < 1e-6
    assert (nearest >= 0).all()
    return float(array[tuple(nearest)])


def assert_placed(
    scan: Scan, voxels: NDArray[np.int16] = VOXELS, orientation: Sequence[float] = AXIAL
) -> None:
    """Each pixel lies where its own slice says: PS3.3 C.7.6.2.1.1, one pixel at a time."""
    assert scan.array.size == voxels.size
    along_row, along_column = np.array(orientation[:3]), np.array(orientation[3:])
    for (index, row, column), value in np.ndenumerate(voxels):
        place = np.array(position(index, orientation))
        place = place + along_row * SPACING[1] * column + along_column * SPACING[0] * row
        assert value_at(scan.array[0], scan.affine, place.tolist()) == value
