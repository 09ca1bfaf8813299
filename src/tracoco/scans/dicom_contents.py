"""What a folder, zip or file of DICOM objects holds: slices, and segmentations of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydicom.uid import UID

from tracoco.errors import UserError
from tracoco.scans.dicom_files import DicomFile, read_object
from tracoco.scans.dicom_pixels import check_pixels
from tracoco.scans.dicom_slice import TAGS, Slice, frames_of

SEGMENTATIONS = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
"""Segmentation Storage and Label Map Segmentation Storage."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The objects of a folder that matter here; documents, directories and reports do not."""

    slices: tuple[Slice, ...]
    segmentations: tuple[DicomFile, ...]


def read_contents(files: Sequence[DicomFile], path: Path) -> Contents:
    """Read the headers of all files; no pixel is touched."""
    slices: list[Slice] = []
    segmentations: list[DicomFile] = []
    for file in files:
        dataset = read_object(file, path, TAGS)
        kind = str(dataset.file_meta.get("MediaStorageSOPClassUID", ""))
        if kind in SEGMENTATIONS:
            segmentations.append(file)
        elif "Rows" in dataset:
            check_pixels(dataset, file, path)
            slices += frames_of(dataset, file, path)
        elif "Image Storage" in UID(kind).name:
            raise UserError(
                f"{path}: {file.name} ends before its image begins: it is cut short; "
                "copy or export it again"
            )
    return Contents(tuple(slices), tuple(segmentations))
