"""Whether several folders of DICOM files hold one series together, or a series each.

Folders of one SeriesInstanceUID mostly do hold one, such as a folder a slice. Some programs that
take names out of scans give all of them the same one, though; then the positions decide.
"""

from collections.abc import Sequence
from pathlib import Path

from tracoco.errors import UserError
from tracoco.scans.dicom_contents import read_contents
from tracoco.scans.dicom_files import dicom_files, read_object
from tracoco.scans.dicom_slice import Slice
from tracoco.scans.dicom_stack import stack_slices


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
