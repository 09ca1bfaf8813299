"""DICOM series: a folder, with folders in it or not, a zip of one, or a file of many frames.

A series is put on its grid or refused: `dicom_stack` has the reasons. Only what is needed is read
of the headers, and nothing of it but the geometry goes on: a result carries no name. The headers of
all slices are read before the pixels of the first, since they give the order of the slices.
"""

from collections.abc import Sequence
from pathlib import Path

from tracoco.errors import UserError
from tracoco.scans.dicom_contents import Contents, Slice, read_contents
from tracoco.scans.dicom_files import dicom_files, has_dicom, read_object
from tracoco.scans.dicom_stack import stack_slices
from tracoco.scans.dicom_voxels import read_labels, read_segmentation, read_voxels
from tracoco.scans.scan import (
    LabelScan,
    Scan,
    ScanHeader,
    Structure,
    canonical_geometry,
    to_canonical,
)
from tracoco.scans.stored import check_finite

is_series = has_dicom


def read_header(path: Path) -> ScanHeader:
    """Shape and spacing of a series, or of a segmentation that lies alone; no pixel is unpacked."""
    with dicom_files(path) as files:
        contents = read_contents(files, path)
        if not contents.slices and contents.segmentations:
            grid = read_segmentation(contents, path).grid
        else:
            grid = stack_slices(contents.slices, path).grid
    return ScanHeader(*canonical_geometry(grid), 1, grid, path)


def read_image(path: Path) -> Scan:
    """Read a series as float32 [1, X, Y, Z] in canonical order; a single slice has Z of one."""
    with dicom_files(path) as files:
        stack = stack_slices(read_contents(files, path).slices, path)
        array = to_canonical(read_voxels(stack, path), stack.grid)[None]
    check_finite(array, path)
    _, affine, spacing_mm = canonical_geometry(stack.grid)
    return Scan(array, affine, spacing_mm, stack.grid, path)


def read_structures(path: Path) -> tuple[Structure, ...]:
    """The structures that contours name; those of segmentation objects are numbered."""
    from tracoco.scans.rtstruct import structure_names  # noqa: PLC0415 - few have contours

    with dicom_files(path) as files:
        contents = read_contents(files, path)
        contours = () if contents.segmentations else contents.structure_sets
        return structure_names(contours[0], path) if contours else ()


def read_label(path: Path) -> LabelScan:
    """Read a segmentation or contours as integers [X, Y, Z], on the grid of their series."""
    with dicom_files(path) as files:
        contents = read_contents(files, path)
        if contents.structure_sets and not contents.segmentations:
            return _read_contours(contents, path)
        segmentation = read_segmentation(contents, path)
        array = to_canonical(read_labels(segmentation, path), segmentation.grid)
    _, affine, spacing_mm = canonical_geometry(segmentation.grid)
    return LabelScan(array, affine, spacing_mm, segmentation.grid, path)


def _read_contours(contents: Contents, path: Path) -> LabelScan:
    from tracoco.scans.rtstruct import read_structure_set  # noqa: PLC0415 - few have contours

    if len(contents.structure_sets) != 1 or not contents.slices:
        raise UserError(
            f"{path} has {len(contents.structure_sets)} sets of contours (RTSTRUCT) and "
            f"{len(contents.slices)} slices; put one set beside the series that it was drawn on"
        )
    grid = stack_slices(contents.slices, path).grid
    array, structures = read_structure_set(contents.structure_sets[0], grid, path)
    _, affine, spacing_mm = canonical_geometry(grid)
    return LabelScan(to_canonical(array, grid), affine, spacing_mm, grid, path, structures)


def is_one_series(folders: Sequence[Path]) -> bool:
    """Whether all folders are parts of one scan; no pixel is read.

    Folders of one SeriesInstanceUID mostly hold one series together, such as a folder per slice.
    Some programs that remove names from scans give all scans the same one; then the positions
    decide.

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
