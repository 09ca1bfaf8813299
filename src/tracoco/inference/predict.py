"""Predict a file or a folder of scans: which scans there are, and where their labels go."""

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tracoco.console import counted
from tracoco.errors import UserError, collected, raise_all
from tracoco.files import content_hash
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
from tracoco.project.folder import Project
from tracoco.project.layouts.community import volumes_below
from tracoco.project.preprocess import check_channels
from tracoco.runs.folder import RunFolder, Weights
from tracoco.scans.reader import (
    WRITTEN,
    case_name,
    is_scan,
    read_grids,
    read_images,
    scan_stem,
    scans_in,
)

DICOM_SEG = "dicom-seg"
CHANNEL = re.compile(r"(.+)_(\d{4})")
"""A case and the number of a channel, as nnU-Net names its files."""


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
        prediction = prediction.without_small_components()
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


def planned_predictions(source: Path, out: Path, channels: int = 1) -> list[PredictedCase]:
    """Which file each scan's labels go to, in the order of the cases' names.

    Args:
        source: a scan of any format, a folder of scans, or a project, which stands for its test
            cases. A folder with DICOM files right in it is one scan, and so is one whose folders
            hold the slices of one series. Without scans right in it, it may have the field's HDF5
            files below it, e.g. `CASE/mri_norm2.h5`.
        out: a folder; a file only where `source` is one scan.
        channels: of a scan. Files `a_0000`, `a_0001`, ... with just as many numbers are one scan.
    """
    if not source.exists():
        raise UserError(f"{source} does not exist; give a scan, or a folder of scans")
    if _is_one_scan(source):
        target = out if is_label_file(out) else out / f"{case_name(source)}.nii.gz"
        return [PredictedCase(scan_stem(target), (source.absolute(),), target.absolute())]
    if is_label_file(out):
        raise UserError(f"{source} is a folder, and {out.name} the name of one file; give a folder")
    if Project(source).exists:
        cases = {case.id: case.images for case in Project(source).test_cases()}
    else:
        cases = _folder_cases(source, channels)
    return [
        PredictedCase(
            case,
            tuple(path.absolute() for path in cases[case]),
            (out / f"{case}.nii.gz").absolute(),
        )
        for case in sorted(cases)
    ]


def is_label_file(path: Path) -> bool:
    """Whether a path that need not exist is named like a file of labels."""
    known = path.name.lower().endswith(WRITTEN)
    if not known and not path.is_dir() and is_scan(path):
        raise UserError(f"{path}: labels are written as {', '.join(WRITTEN)}; choose one of these")
    return known and not path.is_dir()


def shard_of(cases: Sequence[PredictedCase], shard: tuple[int, int]) -> list[PredictedCase]:
    """The k-th of n parts of the cases, for (k, n); parts differ by one case at most."""
    part, parts = shard
    _check_shard(shard, f"{part}/{parts}")
    return list(cases[part - 1 :: parts])


def parse_shard(text: str) -> tuple[int, int]:
    """`2/4`: the second of four parts."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = (int(number) for number in match.groups()) if match else (0, 0)
    _check_shard((part, parts), text)
    return part, parts


def _check_shard(shard: tuple[int, int], text: str) -> None:
    if not 1 <= shard[0] <= shard[1]:
        raise UserError(f"--shard {text} is no part; give 1/4, 2/4, 3/4 or 4/4 to four machines")


def _is_one_scan(source: Path) -> bool:
    if source.is_file():
        return True
    if Project(source).exists:
        return False
    loose = (entry for entry in source.iterdir() if entry.is_file() and not is_scan(entry))
    if any(_is_dicom(entry) for entry in loose if not entry.name.startswith(".")):
        return True
    scans = scans_in(source)
    return len(scans) > 1 and all(scan.is_dir() for scan in scans) and _are_parts(scans)


def _is_dicom(file: Path) -> bool:
    from tracoco.scans.dicom_files import has_dicom  # noqa: PLC0415 - pydicom takes a while

    return file.suffix.lower() != ".zip" and has_dicom(file)


def _are_parts(folders: Sequence[Path]) -> bool:
    from tracoco.scans.dicom import is_one_series  # noqa: PLC0415 - pydicom takes a while

    return is_one_series(folders)


def _folder_cases(source: Path, channels: int) -> dict[str, tuple[Path, ...]]:
    scans = scans_in(source)
    if not scans:
        volumes = volumes_below(source)
        if not volumes:
            raise UserError(f"{source} holds no scans; give a folder of .nii.gz or other scans")
        return {case: (file,) for case, file in volumes.items()}
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for scan in scans:
        by_stem[case_name(scan)].append(scan)
    twice = sorted(stem for stem, paths in by_stem.items() if len(paths) > 1)
    if twice:
        raise UserError(f"{source} holds two scans of the name {', '.join(twice)}; rename one")
    return _with_channels({stem: paths[0] for stem, paths in by_stem.items()}, channels)


def _with_channels(scans: dict[str, Path], channels: int) -> dict[str, tuple[Path, ...]]:
    """Put the files of one scan together; what merely ends in four digits is left alone."""
    numbered: dict[str, dict[int, str]] = defaultdict(dict)
    for stem in scans:
        if match := CHANNEL.fullmatch(stem):
            numbered[match[1]][int(match[2])] = stem
    cases: dict[str, tuple[Path, ...]] = {stem: (path,) for stem, path in scans.items()}
    for case, stems in numbered.items():
        if sorted(stems) == list(range(channels)) and case not in scans:
            cases[case] = tuple(cases.pop(stem)[0] for _, stem in sorted(stems.items()))
    return cases
