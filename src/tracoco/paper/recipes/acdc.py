"""ACDC: a folder a patient, with the two frames that are labelled."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from tracoco.errors import raise_all
from tracoco.paper.recipes.download import Download, community_files, existing, one_each
from tracoco.project.cases import Case

_FRAME = re.compile(r"(patient\d{3})_frame(\d+)(\.nii(?:\.gz)?)")


def find(data: Path) -> Download:
    """`patient001/patient001_frame01.nii.gz` with `..._frame01_gt.nii.gz`, or HDF5."""
    images = one_each(data.rglob("patient*_frame*.nii*"), _numbered)
    if not images:
        # There the slices are counted along the first axis, and nothing in the file says so.
        found = community_files(data, {"dimensions": 2, "slice_axis": 0}, cropped=False)
        return replace(found, cases=tuple(map(_grouped, found.cases)))
    frames: dict[str, list[Path]] = defaultdict(list)
    for name, image in images.items():  # sorted, so the earlier frame comes first
        frames[name.partition("_")[0]].append(image)
    raise_all(_problems(frames))
    cases = tuple(
        Case(f"{patient}_frame{number:02d}", (image,), _label(image), patient)
        for patient, both in frames.items()
        for number, image in enumerate(both, start=1)
    )
    notes = (
        "frame01 is the earlier of a patient's two labelled frames, frame02 the later one",
        "slices are not resampled: each scan keeps its own spacing, as in the paper",
    )
    plan = {"dimensions": 2, "slice_axis": 2, "spacing_mm": (None, None, None)}
    return Download("folders of NIfTI files", cases, plan, notes)


def _numbered(image: Path) -> str | None:
    match = _FRAME.fullmatch(image.name)
    return f"{match[1]}_{int(match[2]):04d}" if match else None


def _label(image: Path) -> Path | None:
    suffix = ".nii.gz" if image.name.endswith(".nii.gz") else ".nii"
    return existing(image.with_name(f"{image.name.removesuffix(suffix)}_gt{suffix}"))


def _grouped(case: Case) -> Case:
    return replace(case, group=case.id.partition("_")[0])


def _problems(frames: dict[str, list[Path]]) -> list[str]:
    return [
        f"{patient} has {len(images)} frames, the data set two: "
        f"{', '.join(image.name for image in images)}. Keep the two that have labels"
        for patient, images in frames.items()
        if len(images) != 2
    ]
