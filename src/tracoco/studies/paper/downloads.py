"""A data set of the paper found in a download: its cases, split and plan, its scans rewritten."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError, did_you_mean
from tracoco.files import atomic_path
from tracoco.project.cases import Case
from tracoco.project.splits import Splits
from tracoco.scans.reader import read_grids, read_images, read_label, write_label
from tracoco.scans.scan import Affine, Grid, on_grid_of
from tracoco.studies.paper.case_lists import PARTS, case_list
from tracoco.studies.paper.data_sets import (
    LA_CLASS_NAMES,
    LA_LABEL_CROP,
    PANCREAS_LABEL_CROP,
    WITHDRAWN,
    Download,
    LabelCrop,
    find_acdc,
    find_brats19,
    find_la,
    find_pancreas,
)

CROPPED = "scans were cropped around the truth, test scans too"
SHOWN = 5
"""Names that a message lists before it counts the rest."""


@dataclass(frozen=True, slots=True)
class PaperData:
    """All that makes a project of the paper's data set."""

    cases: tuple[Case, ...]
    splits: Splits
    """By the field's lists, in their order: labelled are the first ones."""
    class_names: Mapping[int, str]
    """Name of each label value."""
    plan: Mapping[str, Any]
    """Values of the plan that are the paper's rather than the data's."""
    notes: tuple[str, ...]
    watermark: str
    """What every result must say of the data; empty where there is nothing to be said."""
    whole: bool = False
    """Whether all structures of a label are one: `write_scans` makes such labels."""
    label_crop: LabelCrop | None = None
    """How the field crops these scans around their labels, where it does."""


@dataclass(frozen=True, slots=True)
class _DataSet:
    find: Callable[[Path], Download]
    class_names: Mapping[int, str]
    label_crop: LabelCrop | None = None
    withdrawn: frozenset[str] = frozenset()
    """Cases of the lists that are no longer to be had, so that nobody is told to get them."""


PAPER_DATA = {
    "la": _DataSet(find_la, LA_CLASS_NAMES, LA_LABEL_CROP),
    "pancreas": _DataSet(find_pancreas, {1: "pancreas"}, PANCREAS_LABEL_CROP, WITHDRAWN),
    "brats19": _DataSet(find_brats19, {1: "whole tumour"}),
    "acdc": _DataSet(find_acdc, {1: "RV", 2: "Myo", 3: "LV"}),
}


def find_paper_data(name: str, data: Path, *, partial: bool = False) -> PaperData:
    """Find a data set of the paper below a folder; names decide, no voxel is read.

    Args:
        name: la, pancreas, brats19 or acdc.
        data: what was downloaded, as it was unpacked, or a folder around it.
        partial: accept a part of the data set; its results say so.
    """
    if name not in PAPER_DATA:
        raise UserError(
            f"there is no data set '{name}' of the paper; {did_you_mean(name, PAPER_DATA)}"
        )
    if not data.is_dir():
        raise UserError(f"{data} is not a folder; give the one that {name} was unpacked into")
    known = PAPER_DATA[name]
    download = known.find(data)
    listed = [id_ for part in PARTS for id_ in case_list(name, part)]
    found = {case.id: case for case in download.cases}
    missing = [id_ for id_ in listed if id_ not in found]
    part_only = not set(missing) <= known.withdrawn
    kept = tuple(found[id_] for id_ in sorted(set(listed) & found.keys()))
    if not kept or (part_only and not partial):
        raise _incomplete(name, data, download, missing, len(listed))
    short = f"not the paper's data: {len(kept)} of its {len(listed)} scans" if part_only else ""
    marks = (short, CROPPED if download.cropped else "")
    return PaperData(
        kept,
        _split(name, kept),
        known.class_names,
        {"normalisation": "range", **download.plan},  # as the paper's release scales them
        (f"{name}: {len(kept)} scans, {download.form}", *download.notes, *_left_out(found, listed)),
        "; ".join(mark for mark in marks if mark),
        download.whole,
        None if download.cropped else known.label_crop,
    )


def _split(name: str, cases: Sequence[Case]) -> Splits:
    """The lists in their order, as far as the cases are there."""
    known = {case.id: case for case in cases}
    training, validation, test = ([i for i in case_list(name, p) if i in known] for p in PARTS)
    unlabelled = {case.id for case in cases if case.label is None}
    lost = sorted(unlabelled.intersection((*validation, *test)))
    if lost:
        raise UserError(
            f"{_some(lost)} of {name} have no label, but are there to validate or test with; "
            "unpack the labels into the same folder"
        )
    return Splits(
        labelled=tuple(id_ for id_ in training if id_ not in unlabelled),
        unlabelled=tuple(id_ for id_ in training if id_ in unlabelled),
        validation=tuple(validation),
        test=tuple(test),
    )


def _left_out(found: Collection[str], listed: Collection[str]) -> list[str]:
    others = sorted(set(found) - set(listed))
    return [f"left out, because the paper does not use them: {_some(others)}"] if others else []


def _incomplete(
    name: str, data: Path, download: Download, missing: Sequence[str], count: int
) -> UserError:
    if not download.cases:
        forms = "the files as they are downloaded, or the community's HDF5 files"
        return UserError(f"{data} holds no scan of {name}; give the folder with {forms}")
    others = _some(sorted(case.id for case in download.cases))
    if len(missing) == count:
        return UserError(
            f"{data} holds {others} ({download.form}), none of which is in the lists of {name}; "
            "check that it is this data set, and that the names are as downloaded"
        )
    return UserError(
        f"{data} has {count - len(missing)} of the {count} scans of {name} ({download.form}); "
        f"missing: {_some(missing)}. Get them, or give --partial: the results will then say "
        "that they are not on the paper's data"
    )


def _some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def write_scans(
    data: PaperData,
    folder: Path,
    *,
    crop_by_label: bool = False,
    on_case: Callable[[str], None] | None = None,
) -> PaperData:
    """Write what has to change of the scans, and give the data set of the written files.

    Nothing is written, and the data set comes back as it is, where nothing has to be changed.

    Args:
        data: its labels are made one structure if it says so.
        folder: where images and labels are written, in folders of these names.
        crop_by_label: crop images and labels around the labels as the field does, test cases too.
        on_case: called with the id of each case once it is written.
    """
    if crop_by_label and not data.label_crop:
        raise UserError(
            "--crop-by-label: the field does not crop these scans around their labels, or they "
            "are cropped already; leave it out"
        )
    crop = data.label_crop if crop_by_label else None
    if not (crop or data.whole):
        return data
    cases = []
    for case in data.cases:
        cases.append(_write_case(case, folder, crop, whole=data.whole))
        if on_case:
            on_case(case.id)
    marks = [mark for mark in (data.watermark, CROPPED if crop else "") if mark]
    return replace(data, cases=tuple(cases), watermark="; ".join(marks))


def _write_case(case: Case, folder: Path, crop: LabelCrop | None, *, whole: bool) -> Case:
    """A case without a label stays as it is: it cannot be cropped by one."""
    if case.label is None:
        return case
    about = read_grids(case.images)
    label = on_grid_of(about, read_label(case.label))
    array = (label.array > 0).astype(np.uint8) if whole else label.array
    label_file = (folder / "labels" / f"{case.id}.nii.gz").absolute()
    if crop is None:
        write_label(label_file, array, label.grid)
        return replace(case, label=label_file)
    box = crop.box(array, about.spacing_mm)
    affine = about.affine.copy()
    affine[:3, 3] = (about.affine @ [*box.start, 1])[:3]
    x, y, z = box.size
    image_file = (folder / "images" / f"{case.id}.nii.gz").absolute()
    image = read_images(case.images).array
    _write_image(image_file, image[(slice(None), *box.slices)], affine)
    write_label(label_file, array[box.slices], Grid((x, y, z), affine))
    return replace(case, images=(image_file,), label=label_file)


def _write_image(path: Path, array: NDArray[np.float32], affine: Affine) -> None:
    """Write [C, X, Y, Z] with its channels last; as integers where nothing is lost by it."""
    voxels: NDArray[Any] = np.moveaxis(array, 0, -1)
    if voxels.shape[-1] == 1:
        voxels = voxels[..., 0]
    whole_numbers = np.clip(np.rint(voxels), -(2**15), 2**15 - 1).astype(np.int16)
    stored = whole_numbers if np.array_equal(whole_numbers, voxels) else voxels
    image: Any = nibabel.Nifti1Image(stored, affine)
    image.set_qform(affine, code=1)
    image.set_sform(affine, code=1)
    image.header.set_xyzt_units("mm")
    with atomic_path(path) as temporary:
        nibabel.save(image, temporary)
