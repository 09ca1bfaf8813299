"""What DICOM objects say before their pixels are read: slices, and segmentations of them.

A slice is a file, or a frame of a larger file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileDataset
from pydicom.pixels.decoders.base import get_decoder
from pydicom.uid import UID

from tracoco.errors import UserError
from tracoco.scans.dicom_files import DicomFile, read_object, sound_file

SEGMENTATIONS = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
"""Segmentation Storage and Label Map Segmentation Storage."""
STRUCTURE_SETS = "1.2.840.10008.5.1.4.1.1.481.3"
"""RT Structure Set Storage: contours."""
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
    *("SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID"),
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
    sop_class: str
    series: str
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
        sop_class=str(dataset.get("SOPClassUID", "")),
        series=str(dataset.get("SeriesInstanceUID", "")),
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


@dataclass(frozen=True, slots=True)
class Contents:
    """The objects of a folder that matter here; documents, directories and reports do not."""

    slices: tuple[Slice, ...]
    segmentations: tuple[DicomFile, ...]
    structure_sets: tuple[DicomFile, ...] = ()


def read_contents(files: Sequence[DicomFile], path: Path) -> Contents:
    """Read the headers of all files; no pixel is touched."""
    slices: list[Slice] = []
    segmentations: list[DicomFile] = []
    structure_sets: list[DicomFile] = []
    for file in files:
        dataset = read_object(file, path, TAGS)
        kind = str(dataset.file_meta.get("MediaStorageSOPClassUID", ""))
        if kind in SEGMENTATIONS:
            segmentations.append(file)
        elif kind == STRUCTURE_SETS:
            structure_sets.append(file)
        elif "Rows" in dataset:
            check_pixels(dataset, file, path)
            slices += frames_of(dataset, file, path)
        elif "Image Storage" in UID(kind).name:
            raise UserError(
                f"{path}: {file.name} ends before its image begins: it is cut short; "
                "copy or export it again"
            )
    return Contents(tuple(slices), tuple(segmentations), tuple(structure_sets))


def check_pixels(dataset: FileDataset, file: DicomFile, path: Path) -> None:
    """Refuse colours, tables of values, and compression that cannot be unpacked here."""
    colours = str(dataset.get("PhotometricInterpretation", "MONOCHROME2"))
    if int(dataset.get("SamplesPerPixel") or 1) != 1 or not colours.startswith("MONOCHROME"):
        raise UserError(
            f"{path}: {file.name} has {colours} pixels; a scan has one real number a voxel. "
            "Remove it, or export the original grey values"
        )
    if dataset.get("ModalityLUTSequence"):
        raise UserError(
            f"{path}: {file.name} gives its values by a lookup table; convert it to NIfTI, "
            "e.g. with dcm2niix"
        )
    syntax = UID(str(dataset.file_meta.get("TransferSyntaxUID", "")))
    try:
        unpacks = get_decoder(syntax).is_available
    except NotImplementedError:
        unpacks = False
    if not unpacks:
        raise UserError(
            f"{path}: {file.name} is packed as {syntax.name or 'nothing known'}, which cannot be "
            "unpacked here. pip install 'tracoco[dicom]', or convert it to NIfTI with dcm2niix"
        )
