"""BraTS 2019: a folder a case with four MR sequences, of which the paper takes FLAIR."""

from pathlib import Path

from tracoco.paper.recipes.download import Download, community_files, existing, one_each
from tracoco.project.cases import Case

SPACING_MM = (1.0, 1.0, 1.0)
SEQUENCE = "_flair"
SUFFIXES = (".nii.gz", ".nii")


def find(data: Path) -> Download:
    """`HGG` and `LGG` with `CASE/CASE_flair.nii.gz` and `CASE_seg.nii.gz`, or HDF5."""
    images = one_each(data.rglob(f"*{SEQUENCE}.nii*"), _case)
    if not images:
        return community_files(data, {}, cropped=False)
    cases = tuple(Case(name, (image,), _label(image)) for name, image in images.items())
    notes = ("of the four sequences, FLAIR alone is taken; all of the tumour is one structure",)
    plan = {"spacing_mm": SPACING_MM}
    return Download("folders of NIfTI files", cases, plan, notes, whole=True)


def _case(image: Path) -> str | None:
    for suffix in SUFFIXES:
        if image.name.endswith(SEQUENCE + suffix):
            return image.name.removesuffix(SEQUENCE + suffix)
    return None


def _label(image: Path) -> Path | None:
    """The label, packed or not, whatever its image is."""
    files = (image.with_name(f"{_case(image)}_seg{suffix}") for suffix in SUFFIXES)
    return next((file for file in files if existing(file)), None)
