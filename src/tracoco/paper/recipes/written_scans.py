"""Scans that a recipe has to change before a project is made of them, written beside it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.paper.recipes.label_crop import LabelCrop
from tracoco.paper.recipes.recipe import CROPPED, Recipe
from tracoco.project.cases import Case
from tracoco.project.look import check_geometry
from tracoco.scans.reader import read_grid, read_grids, read_images, read_label, write_label
from tracoco.scans.scan import Affine, Grid


def write_scans(
    recipe: Recipe,
    folder: Path,
    *,
    crop_by_label: bool = False,
    on_case: Callable[[str], None] | None = None,
) -> Recipe:
    """Write what the recipe changes of its scans, and give the recipe of the written files.

    Nothing is written, and the recipe comes back as it is, where nothing has to be changed.

    Args:
        recipe: its labels are made one structure if it says so.
        folder: where images and labels are written, in folders of these names.
        crop_by_label: crop images and labels around the labels as the field does, test cases too.
        on_case: called with the id of each case once it is written.
    """
    if crop_by_label and not recipe.label_crop:
        raise UserError(
            "--crop-by-label: the field does not crop these scans around their labels, or they "
            "are cropped already; leave it out"
        )
    crop = recipe.label_crop if crop_by_label else None
    if not (crop or recipe.whole):
        return recipe
    cases = []
    for case in recipe.cases:
        cases.append(_write_case(case, folder, crop, whole=recipe.whole))
        if on_case:
            on_case(case.id)
    marks = [mark for mark in (recipe.watermark, CROPPED if crop else "") if mark]
    return replace(recipe, cases=tuple(cases), watermark="; ".join(marks))


def _write_case(case: Case, folder: Path, crop: LabelCrop | None, *, whole: bool) -> Case:
    """A case without a label stays as it is: it cannot be cropped by one."""
    if case.label is None:
        return case
    about = read_grids(case.images)
    check_geometry(about, read_grid(case.label))
    label = read_label(case.label)
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
