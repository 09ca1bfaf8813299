"""Left Atrium 2018: a folder a case, with the MR scan and the cavity as NRRD."""

from pathlib import Path

from tracoco.paper.recipes.download import Download, community_files, existing, one_each
from tracoco.paper.recipes.label_crop import LabelCrop
from tracoco.project.cases import Case

SPACING_MM = (0.625, 0.625, 0.625)
CLASS_NAMES = {1: "left atrium", 255: "left atrium"}
"""1 in the community's files, 255 in the challenge's."""
LABEL_CROP = LabelCrop(least_mm=70.0, margin_mm=9.375)
"""112 voxels, and 15 more on each side where the field draws 10 to 19."""


def find(data: Path) -> Download:
    """`ID/lgemri.nrrd` with `ID/laendo.nrrd`, or the community's `ID/mri_norm2.h5`."""
    images = one_each(data.rglob("lgemri.nrrd"), lambda file: file.parent.name)
    if not images:
        return community_files(data, {}, cropped=True)
    cases = tuple(
        Case(name, (image,), existing(image.with_name("laendo.nrrd")))
        for name, image in images.items()
    )
    return Download("folders of NRRD files", cases, {"spacing_mm": SPACING_MM})
