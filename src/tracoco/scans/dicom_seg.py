"""DICOM segmentation objects out, by highdicom (the extra `dicom`).

Such an object belongs to the study of the series that it was made from, so highdicom copies the
patient's name and the study's from there: an object is as anonymous as its series, no more. What
was taken out of a series is empty in its object, and only what the standard requires is copied.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import FileDataset
from pydicom.sr.codedict import codes
from pydicom.sr.coding import Code
from pydicom.uid import generate_uid

from tracoco import __version__
from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans.dicom_contents import TAGS, read_contents
from tracoco.scans.dicom_files import dicom_files, read_object
from tracoco.scans.dicom_stack import Stack, stack_slices
from tracoco.scans.dicom_voxels import OWN_CODE, OWN_CODES
from tracoco.scans.scan import to_grid

if TYPE_CHECKING:
    from highdicom.seg import Segmentation, SegmentDescription

SOURCE_TAGS = [
    *TAGS,
    *("SpecificCharacterSet", "Modality", "PositionReferenceIndicator", "ImageType"),
    *("PatientName", "PatientID", "PatientBirthDate", "PatientSex"),
    *("StudyInstanceUID", "StudyDate", "StudyTime", "StudyID"),
    *("AccessionNumber", "ReferringPhysicianName"),
]
"""What is read of a series for its segmentation: the geometry, and those attributes of patient and
study that the standard requires (types 1 and 2). highdicom would copy the optional ones too."""
SERIES_NUMBER = 900
"""Behind what scanners number, so that viewers list it last."""
MAY_BE_EMPTY = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID"),
    *("StudyDate", "StudyTime"),
)
"""What every object must have and may leave empty (type 2); anonymised series often lack some."""
LONGEST_NAME = 64
"""Characters that DICOM has for the name of a segment."""


def write_segmentation(
    path: Path, label: NDArray[Any], names: Mapping[int, str], source: Path
) -> None:
    """Write a canonical [X, Y, Z] label map as segments of the series that it was made from.

    `names` has the label values to write, without the background's; values that are not in it are
    background. A segment without a voxel is named in the object and has no frame.
    """
    need_highdicom()
    stack, images = series_images(source)
    segmentation = _segmentation(to_grid(label, stack.grid), names, stack, images, source)
    with atomic_path(path) as temporary:
        segmentation.save_as(temporary)


def check_series(source: Path, names: Mapping[int, str]) -> None:
    """Refuse a series that no segmentation could be made of, before anything is predicted."""
    need_highdicom()
    stack, images = series_images(source)
    label = np.zeros(stack.grid.shape, np.uint16)
    label[0, 0, 0] = min(names)
    _segmentation(label, names, stack, images, source)


def _segmentation(
    label: NDArray[Any],
    names: Mapping[int, str],
    stack: Stack,
    images: list[FileDataset],
    source: Path,
) -> "Segmentation":
    """The object of a label map [columns, rows, slices]."""
    from highdicom.seg import Segmentation  # noqa: PLC0415  # an extra

    values = sorted(names)
    with _complete(source):
        return Segmentation(
            source_images=images,
            pixel_array=_segment_numbers(label, values, stack),
            segmentation_type="BINARY",  # every viewer reads it; label maps are young
            segment_descriptions=[
                _describe(number, value, names[value]) for number, value in enumerate(values, 1)
            ],
            series_instance_uid=generate_uid(),
            series_number=SERIES_NUMBER,
            sop_instance_uid=generate_uid(),
            instance_number=1,
            manufacturer="tracoco",
            manufacturer_model_name="tracoco",
            software_versions=__version__,
            device_serial_number="none",
            series_description="tracoco segmentation",
        )


def need_highdicom() -> None:
    """Refuse to go on without the library that writes segmentations."""
    if find_spec("highdicom") is None:
        raise UserError("writing DICOM segmentations needs highdicom: pip install 'tracoco[dicom]'")


@contextmanager
def _complete(source: Path) -> Iterator[None]:
    """Name the tag that a series lacks; highdicom copies what a segmentation must share with it."""
    try:
        yield
    except AttributeError as error:
        raise UserError(
            f"{source} lacks a tag that a DICOM segmentation of it must repeat ({error}); "
            "use the NIfTI label, or export the series in full"
        ) from error


def series_images(path: Path) -> tuple[Stack, list[FileDataset]]:
    """The slices in order, and their headers: one a slice, or the one of all frames."""
    with dicom_files(path) as files:
        stack = stack_slices(read_contents(files, path).slices, path)
        by_name = {one.file.name: one.file for one in stack.slices}
        if 1 < len(by_name) < len(stack.slices):
            raise UserError(
                f"{path} spreads its frames over {len(by_name)} files; a segmentation refers to "
                "single slices or to one file of frames. Use the NIfTI label"
            )
        images = [read_object(file, path, SOURCE_TAGS) for file in by_name.values()]
    for image in images:
        for tag in MAY_BE_EMPTY:
            if tag not in image:
                setattr(image, tag, None)
    return stack, images


def _segment_numbers(label: NDArray[Any], values: list[int], stack: Stack) -> NDArray[np.uint16]:
    """A label map [columns, rows, slices] as segment numbers [frames, rows, columns].

    Segments count 1, 2, ... without gaps; label values need not. Frames follow the source: the
    slices in the order of the stack, or the frames in that of their file.
    """
    numbers = np.zeros(label.shape, np.uint16)
    for number, value in enumerate(values, 1):
        numbers[label == value] = number
    order = np.argsort([one.frame for one in stack.slices], kind="stable")
    return np.ascontiguousarray(numbers.transpose(2, 1, 0)[order])


def _describe(number: int, value: int, name: str) -> "SegmentDescription":
    """A segment with its name, and its label value as a private code: names are free text."""
    from highdicom import AlgorithmIdentificationSequence  # noqa: PLC0415  # an extra
    from highdicom.seg import SegmentDescription  # noqa: PLC0415  # an extra

    shown = name[:LONGEST_NAME]
    return SegmentDescription(
        segment_number=number,
        segment_label=shown,
        segmented_property_category=codes.SCT.AnatomicalStructure,
        segmented_property_type=Code(f"{OWN_CODE}{value}", OWN_CODES, shown),
        algorithm_type="AUTOMATIC",
        algorithm_identification=AlgorithmIdentificationSequence(
            name="tracoco",
            family=codes.DCM.ArtificialIntelligence,
            version=__version__,
        ),
    )
