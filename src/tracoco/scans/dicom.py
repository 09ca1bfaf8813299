"""DICOM series in: a folder, with folders in it or not, a zip of one, or a file of many frames.

A series is placed right or refused: `dicom_checks` has the reasons. Only what is needed is read of
the headers, and nothing of it but the geometry goes on: a result carries no name.
"""

from pathlib import Path

from tracoco.scans import checks
from tracoco.scans.dicom_contents import read_contents
from tracoco.scans.dicom_files import dicom_files, has_dicom
from tracoco.scans.dicom_label import read_labels, read_segmentation
from tracoco.scans.dicom_pixels import read_voxels
from tracoco.scans.dicom_stack import stack_slices
from tracoco.scans.scan import LabelScan, Scan, ScanHeader, canonical_geometry, to_canonical

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
    checks.check_finite(array, path)
    _, affine, spacing_mm = canonical_geometry(stack.grid)
    return Scan(array, affine, spacing_mm, stack.grid, path)


def read_label(path: Path) -> LabelScan:
    """Read a segmentation object as integers [X, Y, Z], on the grid of the series beside it."""
    with dicom_files(path) as files:
        segmentation = read_segmentation(read_contents(files, path), path)
        array = to_canonical(read_labels(segmentation, path), segmentation.grid)
    _, affine, spacing_mm = canonical_geometry(segmentation.grid)
    return LabelScan(array, affine, spacing_mm, segmentation.grid, path)
