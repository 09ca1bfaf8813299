"""The voxels of slices, in the units of the scanner, e.g. Hounsfield."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import FileDataset
from pydicom.pixels.decoders.base import get_decoder
from pydicom.pixels.utils import pixel_array
from pydicom.uid import UID

from tracoco.errors import UserError
from tracoco.scans.dicom_files import DicomFile, read_object, sound_file
from tracoco.scans.dicom_slice import Slice
from tracoco.scans.dicom_stack import Stack

PIXEL_TAGS = [
    *("Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation"),
    *("BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "PlanarConfiguration"),
    *("ExtendedOffsetTable", "ExtendedOffsetTableLengths"),
    *("PixelData", "FloatPixelData", "DoubleFloatPixelData"),
]


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
            "unpacked here. pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg, "
            "or convert it to NIfTI with dcm2niix"
        )


def read_voxels(stack: Stack, path: Path) -> NDArray[np.float32]:
    """The numbers of a stack [columns, rows, slices], one file in memory at a time.

    Slope and intercept are those of each slice: PET has its own for every one. Where white and
    black are swapped for viewing (MONOCHROME1) the numbers stay: they mean the same either way.
    """
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
        if dataset.BitsAllocated == 1 and not dataset.file_meta.TransferSyntaxUID.is_compressed:
            return _read_bits(dataset.PixelData, one)
        stored: NDArray[Any] = pixel_array(dataset, index=one.frame)
        return stored.reshape(one.size)


def _read_bits(content: bytes, one: Slice) -> NDArray[np.uint8]:
    """A frame of single bits; it may begin within a byte, which pydicom cannot read."""
    count = one.size[0] * one.size[1]
    first, skipped = divmod(one.frame * count, 8)
    packed = np.frombuffer(content, np.uint8)[first : first + (skipped + count + 7) // 8]
    bits = np.unpackbits(packed, bitorder="little")[skipped : skipped + count]
    return bits.reshape(one.size)
