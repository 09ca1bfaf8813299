"""What is written beside a label: maps, segmentations for other programs, DICOM objects."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tracoco.errors import UserError, collected
from tracoco.inference.manifest import PredictedCase
from tracoco.inference.prediction import Prediction
from tracoco.project.plan import Plan
from tracoco.scans.reader import SEGMENTATION, scan_stem

DICOM_SEG, RTSTRUCT, SEG_NRRD = "dicom-seg", "rtstruct", "seg-nrrd"
FILE_NAMES = {
    DICOM_SEG: "{}.dcm",
    RTSTRUCT: "{}_contours.dcm",
    SEG_NRRD: f"{{}}{SEGMENTATION}",
}
"""Of what is written beside a label; a map is called after its kind."""


def with_files(case: PredictedCase, kinds: Sequence[str]) -> PredictedCase:
    """The case with the files that come beside its label."""
    stem = scan_stem(case.prediction)
    names = {kind: FILE_NAMES.get(kind, f"{{}}_{kind}.nii.gz").format(stem) for kind in kinds}
    files = {kind: case.prediction.with_name(name) for kind, name in names.items()}
    return replace(case, files=files, digests={})


def write_beside(case: PredictedCase, prediction: Prediction, plan: Plan) -> None:
    """Write segmentations for other programs, once the label itself is there."""
    if SEG_NRRD in case.files:
        prediction.write(case.files[SEG_NRRD])
    if DICOM_SEG in case.files:
        from tracoco.scans.dicom_seg import write_segmentation  # noqa: PLC0415 - takes a while

        names = {structure.value: structure.name for structure in plan.structures}
        write_segmentation(case.files[DICOM_SEG], prediction.label, names, case.images[0])
    if RTSTRUCT in case.files:
        from tracoco.scans.rtstruct import write_structure_set  # noqa: PLC0415 - the same

        structures = {structure.value: structure for structure in plan.structures}
        write_structure_set(case.files[RTSTRUCT], prediction.label, structures, case.images[0])


def without_series(cases: Sequence[PredictedCase], plan: Plan) -> list[str]:
    """Scans that no DICOM object can belong to, told before the first prediction."""
    problems: list[str] = []
    for case in cases:
        kinds = [kind for kind in (DICOM_SEG, RTSTRUCT) if kind in case.files]
        for image in case.images if kinds else ():
            with collected(problems):
                _check_series(image, kinds, plan)
    return list(dict.fromkeys(problems))


def _check_series(image: Path, kinds: Sequence[str], plan: Plan) -> None:
    from tracoco.scans.dicom_seg import check_series, need_highdicom  # noqa: PLC0415 - a while
    from tracoco.scans.rtstruct import check_source  # noqa: PLC0415 - the same

    if DICOM_SEG in kinds:
        need_highdicom()
    if not image.is_dir() and image.suffix.lower() != ".zip":
        options = " and ".join(f"--{kind}" for kind in kinds)
        raise UserError(f"{image} is no DICOM series, which {options} writes for; leave it out")
    if DICOM_SEG in kinds:
        check_series(image, {structure.value: structure.name for structure in plan.structures})
    if RTSTRUCT in kinds:
        check_source(image)
