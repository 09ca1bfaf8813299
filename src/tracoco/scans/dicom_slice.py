"""What one slice of a series says about itself, from a file a slice or a frame of a larger file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileDataset
from pydicom.uid import UID

from tracoco.errors import UserError
from tracoco.scans.dicom_files import DicomFile, sound_file

MACROS = {
    "PixelSpacing": "PixelMeasuresSequence",
    "SliceThickness": "PixelMeasuresSequence",
    "ImageOrientationPatient": "PlaneOrientationSequence",
    "ImagePositionPatient": "PlanePositionSequence",
    "RescaleSlope": "PixelValueTransformationSequence",
    "RescaleIntercept": "PixelValueTransformationSequence",
}
"""Where a file of many frames keeps what a file of one slice says at its top."""
SHARED, PER_FRAME = "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"
TAGS = [
    *("SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID", "SeriesDescription"),
    *("FrameOfReferenceUID", "Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation"),
    *("NumberOfFrames", "ModalityLUTSequence", SHARED, PER_FRAME, *MACROS),
]
"""All that is read before the pixels. Who the patient is is not among it, so no message says it."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One plane of voxels: where it lies, in the patient's millimetres (LPS), and what it shows."""

    file: DicomFile
    frame: int
    """0 where a file is one slice."""
    instance: str
    series: str
    description: str
    reference: str
    """Positions of two slices can be compared only within one frame of reference."""
    size: tuple[int, int]
    """Rows, columns."""
    spacing: tuple[float, ...]
    """Millimetres from row to row, from column to column."""
    orientation: tuple[float, ...]
    """Directions along a row and along a column, three cosines each."""
    position: tuple[float, ...]
    thickness: float | None
    slope: float
    intercept: float


def frames_of(dataset: FileDataset, file: DicomFile, path: Path) -> list[Slice]:
    """The slices of one object: one, or one a frame where each frame has a place of its own."""
    with sound_file(file, path):
        frames = int(dataset.get("NumberOfFrames") or 1)
        groups = dataset.get(PER_FRAME) or []
        if len(groups) != frames and (groups or frames > 1):
            raise UserError(
                f"{path}: {file.name} has {frames} frames and places for {len(groups)} of them; "
                "convert it to NIfTI, e.g. with dcm2niix"
            )
        if not groups:
            return [_slice(dataset, [], 0, file, path)]
        shared = list(dataset.get(SHARED) or [])
        return [_slice(dataset, [group, *shared], i, file, path) for i, group in enumerate(groups)]


def _slice(
    dataset: FileDataset, groups: list[Dataset], frame: int, file: DicomFile, path: Path
) -> Slice:
    def numbers(keyword: str, count: int) -> tuple[float, ...]:
        value = _find(dataset, groups, keyword)
        found = () if value is None else tuple(float(v) for v in value)
        if len(found) != count or not np.isfinite(found).all():
            kind = UID(str(dataset.file_meta.get("MediaStorageSOPClassUID", ""))).name
            raise UserError(
                f"{path}: {file.name} ({kind}) has no {keyword}: nothing says where in the body "
                "it lies, as with screenshots and X-rays. Remove it, or export the original slices"
            )
        return found

    def number(keyword: str, otherwise: float) -> float:
        value = _find(dataset, groups, keyword)
        return otherwise if value is None or value == "" else float(value)

    return Slice(
        file=file,
        frame=frame,
        instance=str(dataset.get("SOPInstanceUID", "")),
        series=str(dataset.get("SeriesInstanceUID", "")),
        description=str(dataset.get("SeriesDescription") or ""),
        reference=str(dataset.get("FrameOfReferenceUID", "")),
        size=(int(dataset.Rows), int(dataset.Columns)),
        spacing=numbers("PixelSpacing", 2),
        orientation=numbers("ImageOrientationPatient", 6),
        position=numbers("ImagePositionPatient", 3),
        thickness=number("SliceThickness", 0.0) or None,
        slope=number("RescaleSlope", 1.0),
        intercept=number("RescaleIntercept", 0.0),
    )


def _find(dataset: FileDataset, groups: list[Dataset], keyword: str) -> Any:
    """A value of a frame, of all frames together, or of the file; in this order."""
    for group in groups:
        for item in group.get(MACROS[keyword]) or []:
            if keyword in item:
                return item[keyword].value
    return dataset.get(keyword)
