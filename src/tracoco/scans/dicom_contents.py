"""What a folder, zip or file of DICOM objects holds: slices, and segmentations of them.

Folders of one SeriesInstanceUID mostly hold one series together, such as a folder per slice. Some
programs that remove names from scans give all scans the same one; then the positions decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydicom.uid import UID

from tracoco.errors import UserError
from tracoco.scans.dicom_files import DicomFile, dicom_files, read_object
from tracoco.scans.dicom_pixels import check_pixels
from tracoco.scans.dicom_slice import TAGS, Slice, frames_of
from tracoco.scans.dicom_stack import stack_slices

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


def is_one_series(folders: Sequence[Path]) -> bool:
    """Whether all folders are parts of one scan; no pixel is read.

    As a rule two headers suffice to tell that they are not. What is part of a scan and cannot be
    put together with the rest counts too, so that reading the scan tells what is wrong with it.
    """
    known: set[str] = set()
    for folder in folders:
        known |= _first_series(folder)
        if len(known) > 1:
            return False
    parts = [slices for folder in folders if (slices := _slices(folder))]
    together = [one for slices in parts for one in slices]
    if len(parts) > 1 and _is_stack(together):
        return True
    return not all(len(slices) > 1 and _is_stack(slices) for slices in parts)


def _first_series(folder: Path) -> set[str]:
    """The series of the first file; of one that cannot be read nobody knows."""
    try:
        with dicom_files(folder) as files:
            first = read_object(files[0], folder, ["SeriesInstanceUID"])
            return {str(first.get("SeriesInstanceUID", ""))}
    except UserError:
        return set()


def _slices(folder: Path) -> tuple[Slice, ...]:
    try:
        with dicom_files(folder) as files:
            return read_contents(files, folder).slices
    except UserError:
        return ()


def _is_stack(slices: Sequence[Slice]) -> bool:
    try:
        stack_slices(slices, Path())
    except UserError:
        return False
    return True
