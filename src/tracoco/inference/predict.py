"""Predict a file or a folder of scans, and write the labels and their manifest."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tracoco.console import counted
from tracoco.errors import collected, raise_all
from tracoco.files import content_hash
from tracoco.inference.inputs import planned_predictions, shard_of
from tracoco.inference.manifest import (
    Manifest,
    PredictedCase,
    done_cases,
    manifest_file,
    mixed,
    overwritten,
    read_manifests,
    start_manifest,
)
from tracoco.inference.predictor import Prediction, Predictor
from tracoco.project.preprocess import check_channels
from tracoco.runs.folder import RunFolder, Weights
from tracoco.scans.reader import read_grids, read_images, scan_stem

DICOM_SEG = "dicom-seg"


def predict_scans(  # noqa: PLR0913 - each is a choice of the user's, with a default
    run: Path,
    source: Path,
    out: Path,
    *,
    checkpoint: str = "last",
    weights: Weights = "averaged",
    cct: bool = False,
    maps: Sequence[str] = (),
    dicom_seg: bool = False,
    shard: tuple[int, int] | None = None,
    redo: bool = False,
    device: str = "auto",
    console: Console | None = None,
) -> list[PredictedCase]:
    """Predict a scan or a folder of scans with a run; `predictions.json` says what came of what.

    Cases that the same weights have predicted there already are left as they are.

    Args:
        run: the run's folder.
        source: a scan, a folder of scans, or a project, which stands for its test cases.
        out: a folder, or a file for one scan.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
        cct: remove components that are too small to be believed from every label; maps keep them.
        maps: what to write besides, of `maps.MAPS`.
        dicom_seg: write the labels as DICOM segmentations too.
        shard: (k, n) for the k-th of n parts of the cases, each with a manifest of its own.
        redo: predict again what is there already.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        console: where progress is shown; nowhere if not given.
    """
    predictor = Predictor.load(run, checkpoint=checkpoint, device=device, weights=weights)
    predictor.check_maps(maps)
    cases = planned_predictions(source, out, predictor.plan.channels)
    folder = cases[0].prediction.parent
    kinds = [*maps, *([DICOM_SEG] if dicom_seg else [])]
    cases = [_with_files(case, kinds) for case in shard_of(cases, shard or (1, 1))]
    manifest = _empty_manifest(run, checkpoint, predictor, cct=cct)
    existing = read_manifests(folder)
    done = [] if redo else done_cases(cases, manifest, existing.values())
    there = {case.case for case in done}
    waiting = [case for case in cases if case.case not in there]
    problems = [*overwritten(waiting, existing.values())]
    problems += mixed(cases, manifest, existing.values())
    problems += _without_series(waiting) if dicom_seg else []
    raise_all([*problems, *unlike_scans(waiting, predictor)])
    if console and done:
        console.print(f"{len(done)} of {len(cases)} are there already; --redo makes them again")
    writer = start_manifest(manifest_file(folder, shard), manifest, [*done, *waiting], existing)
    if waiting:
        (folder / "scores.json").unlink(missing_ok=True)  # they were of other predictions
    with counted("predicting", len(waiting), console) as on_case:
        for case in waiting:
            finished = _predict(predictor, case, maps, cct=cct)
            writer.add(finished)
            done.append(finished)
            on_case(case.case)
    return sorted(done, key=lambda case: case.case)


def _empty_manifest(run: Path, checkpoint: str, predictor: Predictor, *, cct: bool) -> Manifest:
    """What the manifest says of the model, still without a case."""
    plan = predictor.plan
    return Manifest(
        run=str(run.absolute()),
        checkpoint=checkpoint,
        weights=content_hash(RunFolder(run).checkpoint(checkpoint)),
        averaged=predictor.averaged,
        cct=cct,
        watermark=predictor.watermark,
        labels=dict(zip(plan.label_values[1:], plan.class_names[1:], strict=True)),
    )


def unlike_scans(cases: Sequence[PredictedCase], predictor: Predictor) -> list[str]:
    """Scans that cannot be read, or that have other channels; told before the first prediction."""
    problems: list[str] = []
    for case in cases:
        with collected(problems):
            header = read_grids(case.images)
            check_channels(header.channels, predictor.plan, header.source)
    return problems


def _with_files(case: PredictedCase, kinds: Sequence[str]) -> PredictedCase:
    """The case with the files that come beside its label."""
    stem = scan_stem(case.prediction)
    names = {
        kind: f"{stem}.dcm" if kind == DICOM_SEG else f"{stem}_{kind}.nii.gz" for kind in kinds
    }
    return replace(case, files={kind: case.prediction.with_name(n) for kind, n in names.items()})


def _predict(
    predictor: Predictor, case: PredictedCase, maps: Sequence[str], *, cct: bool
) -> PredictedCase:
    """Predict one case and write its files; the caller enters it in the manifest."""
    scan = read_images(case.images)
    began = time.perf_counter()
    prediction = predictor(scan, maps=maps, folder=case.prediction.parent)
    if cct:
        prediction = prediction.without_specks()
    seconds = time.perf_counter() - began
    for name in maps:
        prediction.write_map(name, case.files[name])
    if DICOM_SEG in case.files:
        _write_segmentation(case, prediction, predictor)
    prediction.write(case.prediction)
    return replace(case, seconds=seconds)


def _write_segmentation(case: PredictedCase, prediction: Prediction, predictor: Predictor) -> None:
    from tracoco.scans.dicom_seg import write_segmentation  # noqa: PLC0415 - pydicom takes a while

    plan = predictor.plan
    names = dict(zip(plan.label_values[1:], plan.class_names[1:], strict=True))
    write_segmentation(case.files[DICOM_SEG], prediction.label, names, case.images[0])


def _without_series(cases: Sequence[PredictedCase]) -> list[str]:
    """Scans that no DICOM segmentation can belong to."""
    from tracoco.scans.dicom_seg import need_highdicom  # noqa: PLC0415 - pydicom takes a while

    need_highdicom()
    return [
        f"{image} is no DICOM series, which --dicom-seg writes segmentations for; leave it out"
        for case in cases
        for image in case.images
        if not image.is_dir() and image.suffix.lower() != ".zip"
    ]
