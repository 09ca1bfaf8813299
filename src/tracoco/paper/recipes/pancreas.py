"""Pancreas-CT: a DICOM series a case, the labels as NIfTI in a folder of their own."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from tracoco.paper.recipes.download import Download, community_files, one_each
from tracoco.paper.recipes.label_crop import LabelCrop
from tracoco.project.cases import Case

SPACING_MM = (1.0, 1.0, 1.0)
WINDOW = (-125.0, 275.0)
"""Hounsfield units, Sec. "Datasets"."""
LABEL_CROP = LabelCrop(least_mm=96.0, margin_mm=25.0)
WITHDRAWN = frozenset({"image0025", "image0070"})
"""No longer in the archive: the patient of image0002 once more, cropped otherwise."""

_IMAGE = re.compile(r"PANCREAS_(\d{4})(\.nii|\.nii\.gz|\.zip)?", re.IGNORECASE)
_LABEL = re.compile(r"label(\d{4})\.nii(\.gz)?", re.IGNORECASE)


def find(data: Path) -> Download:
    """`PANCREAS_0001` (folder or zip of a series, or NIfTI) with `label0001.nii.gz`, or HDF5."""
    images = one_each(data.rglob("*"), lambda path: _listed(_IMAGE, path))
    if not images:
        found = community_files(data, {}, cropped=True)
        return replace(found, notes=(*found.notes, *_about({case.id for case in found.cases})))
    labels = one_each(data.rglob("*"), lambda path: _listed(_LABEL, path))
    cases = tuple(Case(name, (image,), labels.get(name)) for name, image in images.items())
    plan = {"spacing_mm": SPACING_MM, "window": WINDOW}
    return Download("DICOM series and NIfTI labels", cases, plan, _about(images.keys()))


def _about(names: Collection[str]) -> tuple[str, ...]:
    if not WITHDRAWN & set(names):
        return (f"without {' and '.join(sorted(WITHDRAWN))}, which the archive has withdrawn",)
    return (
        "image0002 (training), image0025 (test) and image0070 (training) are one patient: "
        "the archive has withdrawn the last two, the field's lists have them still",
    )


def _listed(pattern: re.Pattern[str], path: Path) -> str | None:
    match = pattern.fullmatch(path.name)
    return f"image{match[1]}" if match else None
