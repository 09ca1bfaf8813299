"""Contours of radiotherapy (RTSTRUCT): label maps out of them, and label maps as them.

A voxel is in a structure if its centre lies inside an odd number of the structure's contours on its
slice, so that a contour inside another one is a hole. What is written this way is read back voxel
by voxel. An object belongs to the study of its series, so it is as anonymous as that is.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian, generate_uid

from tracoco import __version__
from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans.dicom_contents import STRUCTURE_SETS
from tracoco.scans.dicom_files import DicomFile, read_object, sound_file
from tracoco.scans.dicom_seg import MAY_BE_EMPTY, SERIES_NUMBER, series_images
from tracoco.scans.dicom_stack import RAS, Stack
from tracoco.scans.scan import Grid, Structure, to_grid

CLOSED = "CLOSED_PLANAR"
BODY = "EXTERNAL"
"""Interpreted type of the patient's outline, which holds all other structures."""
OFF_SLICE = 0.1
"""Slices that a contour may lie beside the middle of one."""
Contours = dict[int, list[NDArray[np.float64]]]
"""Corners [N, 2] in columns and rows of each contour, by slice."""


def read_structure_set(
    file: DicomFile, grid: Grid, path: Path
) -> tuple[NDArray[np.uint16], tuple[Structure, ...]]:
    """A label map [columns, rows, slices] on the grid of the series, and what its values are."""
    dataset = read_object(file, path)
    labels = np.zeros(grid.shape, np.uint16, order="F")
    structures: list[Structure] = []
    with sound_file(file, path):
        for name, contours, colour in _regions(dataset, grid, file, path):
            value = len(structures) + 1
            for place, corners in contours.items():
                inside = _filled(corners, labels.shape[:2])
                there = labels[:, :, place]
                if (there[inside] > 0).any():
                    other = structures[int(there[inside].max()) - 1].name
                    raise UserError(
                        f"{path}: {file.name} has structures that overlap, '{other}' and '{name}'; "
                        "a label map has one value a voxel. Take one of them out"
                    )
                there[inside] = value
            structures.append(Structure(value, name, colour))
    if not structures:
        raise UserError(f"{path}: {file.name} has no closed contour; draw some, or take it out")
    return labels, tuple(structures)


def structure_names(file: DicomFile, path: Path) -> tuple[Structure, ...]:
    """The structures that have contours, with the values that `read_structure_set` gives them."""
    dataset = read_object(file, path)
    with sound_file(file, path):
        found = [(name, colour) for name, _, colour in _drawn(dataset)]
    return tuple(Structure(value, *each) for value, each in enumerate(found, 1))


Region = tuple[str, list[Dataset], tuple[float, float, float] | None]


def _drawn(dataset: FileDataset) -> Iterator[Region]:
    """Name, contours and colour of each structure that has a closed one, but for the outline."""
    kinds = {
        int(each.ReferencedROINumber): str(each.get("RTROIInterpretedType") or "")
        for each in dataset.get("RTROIObservationsSequence") or []
    }
    names = {int(each.ROINumber): str(each.ROIName) for each in dataset.StructureSetROISequence}
    for region in dataset.get("ROIContourSequence") or []:
        number = int(region.ReferencedROINumber)
        contours = [
            each
            for each in region.get("ContourSequence") or []
            if each.ContourGeometricType == CLOSED
        ]
        if contours and kinds.get(number) != BODY:
            rgb = [int(level) / 255 for level in region.get("ROIDisplayColor") or []]
            colour = (rgb[0], rgb[1], rgb[2]) if len(rgb) == 3 else None
            yield names[number], contours, colour


def _regions(
    dataset: FileDataset, grid: Grid, file: DicomFile, path: Path
) -> Iterator[tuple[str, Contours, tuple[float, float, float] | None]]:
    to_voxels = np.linalg.inv(grid.affine) @ RAS
    for name, drawn, colour in _drawn(dataset):
        contours: Contours = defaultdict(list)
        for contour in drawn:
            points = np.asarray(contour.ContourData, np.float64).reshape(-1, 3)
            corners = points @ to_voxels[:3, :3].T + to_voxels[:3, 3]
            place = round(float(corners[:, 2].mean()))
            if np.abs(corners[:, 2] - place).max() > OFF_SLICE:
                raise UserError(
                    f"{path}: {file.name} has a contour of '{name}' between two slices of the "
                    "series; it was drawn on another series. Put it beside that one"
                )
            if not 0 <= place < grid.shape[2]:
                raise UserError(
                    f"{path}: {file.name} has a contour of '{name}' outside of the series; put it "
                    "beside the series that it was drawn on"
                )
            contours[place].append(corners[:, :2])
        yield name, contours, colour


def _filled(contours: list[NDArray[np.float64]], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which voxels [columns, rows] have their centre inside an odd number of contours."""
    from matplotlib.path import Path as Outline  # noqa: PLC0415 - takes a while to import

    filled = np.zeros(shape, np.bool_)
    for corners in contours:
        low = np.maximum(np.floor(corners.min(axis=0)).astype(int), 0)
        high = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 1, shape)
        if (low >= high).any():
            continue
        part = np.indices(high - low).reshape(2, -1).T + low
        inside = Outline(corners).contains_points(part)
        filled[low[0] : high[0], low[1] : high[1]] ^= inside.reshape(high - low)
    return filled


def check_source(source: Path) -> tuple[Stack, list[FileDataset]]:
    """Refuse a series that no contours can belong to; its slices in order, and their headers."""
    stack, images = series_images(source)
    for tag in ("StudyInstanceUID", "FrameOfReferenceUID"):
        if tag not in images[0]:
            raise UserError(f"{source} has no {tag}; use the NIfTI label, or export it in full")
    return stack, images


def write_structure_set(
    path: Path, label: NDArray[Any], structures: Mapping[int, Structure], source: Path
) -> None:
    """Write a canonical [X, Y, Z] label map as contours on the slices of its series.

    Args:
        path: the file.
        label: values that are not in `structures` are background.
        structures: the label values to write; one without a voxel is named and has no contour.
        source: the series that was segmented.
    """
    stack, images = check_source(source)
    first = images[0]
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(STRUCTURE_SETS)
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID = meta.MediaStorageSOPClassUID
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    for tag in (*MAY_BE_EMPTY, "StudyInstanceUID", "FrameOfReferenceUID"):
        setattr(dataset, tag, first[tag].value)
    dataset.Modality, dataset.SeriesInstanceUID = "RTSTRUCT", generate_uid()
    dataset.SeriesNumber, dataset.SeriesDescription = SERIES_NUMBER + 1, "tracoco contours"
    dataset.Manufacturer = dataset.ManufacturerModelName = "tracoco"
    dataset.SoftwareVersions, dataset.ReferringPhysicianName = __version__, None
    dataset.StructureSetLabel, dataset.StructureSetDate, dataset.StructureSetTime = (
        "tracoco",
        "",
        "",
    )
    dataset.ReferencedFrameOfReferenceSequence = [_reference(images)]
    on_grid = to_grid(label, stack.grid)
    numbered = list(enumerate(sorted(structures.items()), 1))
    dataset.StructureSetROISequence = [
        _item(
            ROINumber=number,
            ReferencedFrameOfReferenceUID=first.FrameOfReferenceUID,
            ROIName=structure.name[:64],
            ROIGenerationAlgorithm="AUTOMATIC",
        )
        for number, (_, structure) in numbered
    ]
    dataset.ROIContourSequence = [
        _item(
            ReferencedROINumber=number,
            ROIDisplayColor=[round(255 * level) for level in structure.shown_colour],
            ContourSequence=list(_contours(on_grid == value, stack)),
        )
        for number, (value, structure) in numbered
    ]
    dataset.RTROIObservationsSequence = [
        _item(
            ObservationNumber=number,
            ReferencedROINumber=number,
            RTROIInterpretedType="",
            ROIInterpreter="",
        )
        for number, _ in numbered
    ]
    with atomic_path(path) as temporary:
        dataset.save_as(temporary, enforce_file_format=True)


def _reference(images: list[FileDataset]) -> Dataset:
    """The series, and each of its objects."""
    objects = [
        _item(ReferencedSOPClassUID=each.SOPClassUID, ReferencedSOPInstanceUID=each.SOPInstanceUID)
        for each in images
    ]
    first = images[0]
    series = _item(SeriesInstanceUID=first.SeriesInstanceUID, ContourImageSequence=objects)
    study = _item(
        ReferencedSOPClassUID="1.2.840.10008.3.1.2.3.1",
        ReferencedSOPInstanceUID=first.StudyInstanceUID,
        RTReferencedSeriesSequence=[series],
    )
    return _item(FrameOfReferenceUID=first.FrameOfReferenceUID, RTReferencedStudySequence=[study])


def _contours(mask: NDArray[np.bool_], stack: Stack) -> Iterator[Dataset]:
    """The outlines of a structure [columns, rows, slices], slice by slice."""
    from contourpy import contour_generator  # noqa: PLC0415 - takes a while to import

    to_lps = RAS @ stack.grid.affine
    for place in np.flatnonzero(mask.any(axis=(0, 1))):
        # A margin closes the outlines of structures that touch the edge of the slice.
        around = np.pad(mask[:, :, place], 1).astype(np.float64)
        for line in contour_generator(z=around.T).lines(0.5):
            corners = np.asarray(line)[:-1] - 1  # the last one is the first again
            voxels = np.column_stack([corners, np.full(len(corners), place), np.ones(len(corners))])
            points = (voxels @ to_lps.T)[:, :3]
            one = stack.slices[place]
            yield _item(
                ContourImageSequence=[
                    _item(
                        ReferencedSOPClassUID=one.sop_class, ReferencedSOPInstanceUID=one.instance
                    )
                ],
                ContourGeometricType=CLOSED,
                NumberOfContourPoints=len(points),
                ContourData=[f"{value:.6g}"[:16] for value in points.ravel()],
            )


def _item(**values: Any) -> Dataset:
    item = Dataset()
    for keyword, value in values.items():
        setattr(item, keyword, value)
    return item
