"""The voxels of DICOM objects: the numbers of slices, and segmentations as label maps.

A segmentation holds a frame for each structure and slice, and mostly leaves the empty ones out. So
where the series that it was drawn on lies beside it, that gives the grid; otherwise its own frames
must fill one.
"""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset, FileDataset
from pydicom.pixels.utils import pixel_array

from tracoco.errors import UserError
from tracoco.scans.dicom_contents import PER_FRAME, SHARED, TAGS, Contents, Slice, frames_of
from tracoco.scans.dicom_files import DicomFile, read_object, sound_file
from tracoco.scans.dicom_stack import RAS, SAME_PLACE_MM, Stack, plane_affine, stack_slices
from tracoco.scans.packed import voxel_bytes
from tracoco.scans.scan import SAME_GRID, Grid

PIXEL_TAGS = [
    *("Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation"),
    *("BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "PlanarConfiguration"),
    *("ExtendedOffsetTable", "ExtendedOffsetTableLengths"),
    *("PixelData", "FloatPixelData", "DoubleFloatPixelData"),
]
PIXEL_TYPES = ("OB", "OW", "OF", "OD", "UN")
OWN_CODES = "99TRACOCO"
"""The scheme under which the package writes label values; 99 marks a private one."""
OWN_CODE = "LABEL-"
SEGMENT_TAGS = [*TAGS, "SegmentationType", "SegmentSequence"]


def read_voxels(stack: Stack, path: Path) -> NDArray[np.float32]:
    """The numbers of a stack [columns, rows, slices], one file in memory at a time.

    Slope and intercept are those of each slice: PET has its own for every one. Where white and
    black are swapped for viewing (MONOCHROME1) the numbers stay: they mean the same either way.
    """
    voxel_bytes(stack.grid.shape, np.dtype(np.float32), path)
    voxels: NDArray[np.float32] = np.empty(stack.grid.shape, np.float32, order="F")
    places = sorted(enumerate(stack.slices), key=lambda place: place[1].file.name)
    for _, group in groupby(places, key=lambda place: place[1].file.name):
        members = list(group)
        file = members[0][1].file
        dataset = read_object(file, path, PIXEL_TAGS, pixels=True)
        for index, one in members:
            stored = read_frame(dataset, one, path)
            voxels[:, :, index] = (stored * one.slope + one.intercept).T
    return voxels


def read_frame(dataset: FileDataset, one: Slice, path: Path) -> NDArray[Any]:
    """The stored numbers [rows, columns] of a slice."""
    with sound_file(one.file, path):
        _check_pixel_type(dataset)
        if dataset.BitsAllocated == 1 and not dataset.file_meta.TransferSyntaxUID.is_compressed:
            return _read_bits(dataset.PixelData, one)
        stored: NDArray[Any] = pixel_array(dataset, index=one.frame)
        return stored.reshape(one.size)


def _check_pixel_type(dataset: FileDataset) -> None:
    """Refuse pixels of a damaged type: pydicom then takes a part of the header for pixels."""
    known = (None,) if dataset.original_encoding[0] else PIXEL_TYPES
    for keyword in ("PixelData", "FloatPixelData", "DoubleFloatPixelData"):
        element = dataset.get_item(keyword) if keyword in dataset else None
        # Not yet converted, it has the type that the file gives; afterwards what it should be.
        if isinstance(element, RawDataElement) and element.VR not in known:
            raise ValueError(f"{keyword} has a wrong type")


def _read_bits(content: bytes, one: Slice) -> NDArray[np.uint8]:
    """A frame of single bits; it may begin within a byte, which pydicom cannot read."""
    count = one.size[0] * one.size[1]
    first, skipped = divmod(one.frame * count, 8)
    packed = np.frombuffer(content, np.uint8)[first : first + (skipped + count + 7) // 8]
    bits = np.unpackbits(packed, bitorder="little")[skipped : skipped + count]
    return bits.reshape(one.size)


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Frames with the label value of each; None where the pixels are the segments' numbers."""

    file: DicomFile
    frames: tuple[Slice, ...]
    frame_values: tuple[int | None, ...]
    segment_values: dict[int, int]
    grid: Grid


def read_segmentation(contents: Contents, path: Path) -> Segmentation:
    """Read which structures there are and where, but no pixel."""
    if len(contents.segmentations) != 1:
        raise UserError(
            f"{path} has {len(contents.segmentations)} DICOM segmentations; a label is one, "
            "a set of contours (RTSTRUCT), or a NIfTI, NRRD or MHA file"
        )
    file = contents.segmentations[0]
    dataset = read_object(file, path, SEGMENT_TAGS)
    with sound_file(file, path):
        kind = str(dataset.get("SegmentationType", ""))
        if kind not in ("BINARY", "LABELMAP"):
            raise UserError(
                f"{path}: {file.name} is a {kind or 'nameless'} segmentation; a label map has "
                "structures that are there or not. Save it as a binary one"
            )
        frames = tuple(frames_of(dataset, file, path))
        values = {int(s.SegmentNumber): _value(s) for s in dataset.get("SegmentSequence") or []}
        ofs = tuple(None if kind == "LABELMAP" else values[n] for n in _segments(dataset))
    return Segmentation(file, frames, ofs, values, _grid(contents, frames, path))


def read_labels(segmentation: Segmentation, path: Path) -> NDArray[Any]:
    """The label map [columns, rows, slices] on the segmentation's grid; 0 where nothing is."""
    dataset = read_object(segmentation.file, path, PIXEL_TAGS, pixels=True)
    voxel_bytes(segmentation.grid.shape, np.dtype(np.int32), path)
    labels = np.zeros(segmentation.grid.shape, np.int32, order="F")
    pairs = zip(segmentation.frames, segmentation.frame_values, strict=True)
    for frame, value in pairs:
        there = labels[:, :, _place(frame, segmentation.grid, path)]
        stored = read_frame(dataset, frame, path).T
        if value is None:
            found = np.zeros_like(there)
            for number, of in segmentation.segment_values.items():
                found[stored == number] = of if number else 0
        else:
            found = np.where(stored > 0, value, 0).astype(there.dtype)
        clash = int(np.count_nonzero((there > 0) & (found > 0)))
        if clash:
            raise UserError(
                f"{path}: {frame.file.name} has structures that overlap, e.g. in {clash} voxels of "
                "one slice; a label map has one value a voxel. Cut one out of the other"
            )
        there += found
    return labels


def _segments(dataset: FileDataset) -> list[int]:
    """The number of the segment that each frame shows; 0 in a label map, which shows all."""
    shared = list(dataset.get(SHARED) or [])

    def segment(group: Dataset) -> int:
        for holder in (group, *shared):
            for item in holder.get("SegmentIdentificationSequence") or []:
                return int(item.ReferencedSegmentNumber)
        return 0

    return [segment(group) for group in dataset.get(PER_FRAME) or []]


def _value(segment: Dataset) -> int:
    """The label value that a segment was written for, or else its number."""
    for code in segment.get("SegmentedPropertyTypeCodeSequence") or []:
        text = str(code.get("CodeValue", ""))
        if code.get("CodingSchemeDesignator") == OWN_CODES and text.startswith(OWN_CODE):
            return int(text.removeprefix(OWN_CODE))
    return int(segment.SegmentNumber)


def _grid(contents: Contents, frames: tuple[Slice, ...], path: Path) -> Grid:
    if contents.slices:
        return stack_slices(contents.slices, path).grid
    digits = round(-np.log10(SAME_PLACE_MM))
    places = {tuple(np.round(frame.position, digits)): frame for frame in frames}
    try:
        return stack_slices(list(places.values()), path).grid
    except UserError as error:
        raise UserError(
            f"{path} is a DICOM segmentation whose frames fill no grid, mostly since empty ones "
            "were left out; put it into one folder or zip with the series that it was drawn on"
        ) from error


def _place(frame: Slice, grid: Grid, path: Path) -> int:
    """The index of the slice that a frame lies on."""
    columns, rows, slices = grid.shape
    corners = np.array([[0, columns, 0, columns], [0, 0, rows, rows], [0, 0, 0, 0], [1, 1, 1, 1]])
    world = RAS @ plane_affine(frame, path) @ corners
    found = (np.linalg.inv(grid.affine) @ world)[:3]
    index = round(float(found[2, 0]))
    apart = np.abs(found - corners[:3] - [[0], [0], [index]]).max()
    if frame.size != (rows, columns) or not 0 <= index < slices or apart > SAME_GRID:
        raise UserError(
            f"{path}: frame {frame.frame + 1} of {frame.file.name} does not lie on a slice of the "
            "series beside it; keep the series that it was drawn on there, and no other"
        )
    return index
