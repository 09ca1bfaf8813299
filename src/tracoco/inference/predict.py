"""Predict a file or a folder of scans: which scans there are, and where their labels go."""

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from tracoco.console import counted
from tracoco.errors import UserError, check_choice, collected, raise_all
from tracoco.inference.manifest import (
    Manifest,
    PredictedCase,
    changed_files,
    done_cases,
    manifest_file,
    mixed,
    overwritten,
    read_manifests,
    scans_of,
    start_manifest,
)
from tracoco.inference.model_choice import ModelChoice, ScanPredictor, Tuned
from tracoco.inference.prediction import DICOM_SEG, RTSTRUCT, SEG_NRRD, check_series
from tracoco.lock import alone_for_a_moment, shard_writer
from tracoco.processes import Shard, interrupted_by_signals, shard_of
from tracoco.project.folder import Project
from tracoco.project.layouts.community import volumes_below
from tracoco.project.preprocess import check_channels
from tracoco.project.splits import PARTS
from tracoco.scans.reader import (
    WRITTEN,
    case_name,
    is_scan,
    read_grids,
    read_images,
    scan_stem,
    scans_in,
)
from tracoco.scans.scan import Structure

if TYPE_CHECKING:
    from tracoco.runs.folder import Weights

CHANNEL = re.compile(r"(.+)_(\d{4})")
"""A case and the number of a channel, as nnU-Net names its files."""


def predict_scans(  # noqa: PLR0913 - each is a choice of the user's, with a default
    run: Path,
    source: Path,
    out: Path,
    *,
    others: Sequence[Path] = (),
    checkpoint: str = "last",
    weights: "Weights" = "averaged",
    members: Literal["first", "both"] = "first",
    mirror: bool = False,
    plain: bool = False,
    cct: bool = False,
    maps: Sequence[str] = (),
    dicom_seg: bool = False,
    rtstruct: bool = False,
    part: str | None = None,
    uncertainty: bool = False,
    seg_nrrd: bool = False,
    shard: Shard | None = None,
    redo: bool = False,
    device: str = "auto",
    console: Console | None = None,
) -> list[PredictedCase]:
    """Predict a scan or a folder of scans with a run; `predictions.json` says what came of what.

    Cases that the same weights have predicted there already are left as they are, unless the scan
    has changed. One process at a time writes into a folder, or one for each shard.

    Args:
        run: the run's folder, or the file of an exported model.
        source: a scan, a folder of scans, or a project.
        out: a folder, or a file for one scan.
        others: runs whose probabilities are averaged with those of the first.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
        members: `both` averages two networks that were trained together.
        mirror: average mirrored views, along the plan's `mirror_axes`.
        plain: leave out the options that `tracoco tune` has recorded in the run.
        cct: remove components that are too small to be believed from every label; maps keep them.
        maps: what to write besides, of `maps.MAPS`.
        dicom_seg: write the labels as DICOM segmentations too.
        rtstruct: write the labels as contours (RTSTRUCT) too.
        part: of a project's split, `all`, or `fold` for the fold that the run held out; its test
            cases by default.
        uncertainty: measure how unsure the networks are of each scan; the manifest keeps it.
        seg_nrrd: write the labels as segmentations of 3D Slicer too.
        shard: (k, n) for the k-th of n parts of the cases, each with a manifest of its own.
        redo: predict again what is there already.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        console: where progress is shown; nowhere if not given.
    """
    choice = ModelChoice(run, (*others,), checkpoint, weights, members, mirror, plain, device)
    predictor, manifest, tuned = choice.load()
    predictor.check_maps(maps)
    if console and tuned.text and not (members != "first" or mirror):
        console.print(f"as tuned on validation cases: {tuned.text}; --plain leaves it out")
    if part == "fold":
        part = fold_of(run, others)
    cases = planned_predictions(source, out, predictor.plan.channels, part)
    folder = cases[0].prediction.parent
    kinds = [*maps, *[DICOM_SEG] * dicom_seg, *[RTSTRUCT] * rtstruct, *[SEG_NRRD] * seg_nrrd]
    cases = [case.with_files(kinds) for case in shard_of(cases, shard or (1, 1))]
    manifest = replace(manifest, cct=cct)
    with (
        interrupted_by_signals("stopped; the same command goes on from here") as stop,
        shard_writer(folder, "predict", shard),
    ):
        existing = read_manifests(folder).values()
        done = [] if redo else done_cases(cases, manifest, existing, uncertainty=uncertainty)
        there = {case.case for case in done}
        waiting = [case for case in cases if case.case not in there]
        raise_all(without_series(waiting, predictor.plan.structures))
        raise_all(unlike_scans(waiting, predictor))
        with alone_for_a_moment(folder, "predict"):
            found = read_manifests(folder)
            _check_folder(cases, waiting, manifest, found, redo=redo)
            file = manifest_file(folder, shard)
            writer = start_manifest(file, manifest, [*done, *waiting], found)
        if console and done:
            console.print(f"{len(done)} of {len(cases)} are there already; --redo makes them again")
        if waiting:
            (folder / "scores.json").unlink(missing_ok=True)  # they were of other predictions
        with counted("predicting", len(waiting), console) as on_case:
            for case in waiting:
                finished = _predict(predictor, case, maps, tuned, cct=cct, uncertainty=uncertainty)
                with stop.completing():
                    writer.add(finished)
                done.append(finished)
                on_case(case.case)
    return sorted(done, key=lambda case: case.case)


def fold_of(run: Path, others: Sequence[Path]) -> str:
    """The part of the project that a run held out, e.g. `fold 2`."""
    from tracoco.runs.folder import RunFolder  # noqa: PLC0415 - needs torch

    number = RunFolder(run).config().data.fold
    if number is None:
        raise UserError(f"--part fold: {run} held out no fold; train one with --fold")
    if others:
        raise UserError(
            "--part fold and --with do not go together: the other runs have learnt from these "
            "cases; leave out --with"
        )
    return f"fold {number}"


def _check_folder(
    cases: Sequence[PredictedCase],
    waiting: Sequence[PredictedCase],
    manifest: Manifest,
    existing: Mapping[Path, Manifest],
    *,
    redo: bool,
) -> None:
    """Refuse to write over what is no prediction, or was changed since, and to mix two runs."""
    found = existing.values()
    problems = [*overwritten(waiting, found), *changed_files(found, {case.case for case in cases})]
    raise_all([*problems, *mixed(cases, manifest, found, redo=redo)])


def without_series(cases: Sequence[PredictedCase], structures: Sequence[Structure]) -> list[str]:
    """Scans that no DICOM object can belong to; told before the first prediction."""
    problems: list[str] = []
    for case in cases:
        for image in case.images:
            with collected(problems):
                check_series(image, case.files, structures)
    return list(dict.fromkeys(problems))


def unlike_scans(cases: Sequence[PredictedCase], predictor: ScanPredictor) -> list[str]:
    """Scans that cannot be read, or that have other channels; told before the first prediction."""
    problems: list[str] = []
    for case in cases:
        with collected(problems):
            header = read_grids(case.images)
            check_channels(header.channels, predictor.plan, header.source)
    return problems


def _predict(
    predictor: ScanPredictor,
    case: PredictedCase,
    maps: Sequence[str],
    tuned: Tuned,
    *,
    cct: bool,
    uncertainty: bool,
) -> PredictedCase:
    """Predict one case and write its files; the caller enters it in the manifest."""
    scans = scans_of(case)  # before they are read: a later change must be noticed
    scan = read_images(case.images)
    began = time.perf_counter()
    folder = case.prediction.parent
    prediction = tuned.clean(predictor(scan, maps=maps, folder=folder, uncertainty=uncertainty))
    if cct:
        prediction = prediction.without_small_components()
    seconds = time.perf_counter() - began
    for name in maps:
        prediction.write_map(name, case.files[name])
    prediction.write(case.prediction)
    prediction.write_beside(case.files, case.images[0])
    finished = case.predicted(seconds, scans)
    return replace(finished, uncertainty=prediction.uncertainty)


def planned_predictions(
    source: Path, out: Path, channels: int = 1, part: str | None = None
) -> list[PredictedCase]:
    """Which file each scan's labels go to, in the order of the cases' names.

    Args:
        source: a scan of any format, a folder of scans, or a project. A folder with DICOM files
            right in it is one scan, and so is one whose folders hold the slices of one series.
            Without scans right in it, it may have the field's HDF5 files below it, e.g.
            `CASE/mri_norm2.h5`.
        out: a folder; a file only where `source` is one scan.
        channels: of a scan. Files `a_0000`, `a_0001`, ... with just as many numbers are one scan.
        part: of a project's split, `all`, or `fold K`; its test cases if not given.
    """
    if not source.exists():
        raise UserError(f"{source} does not exist; give a scan, or a folder of scans")
    if part is not None:
        check_choice("part", part.partition(" ")[0], (*PARTS, "all", "fold"))
        if not Project(source).exists:
            raise UserError(
                f"--part {part} is a part of a project, and {source} is none; leave it out"
            )
    if _is_one_scan(source):
        target = out if is_label_file(out) else out / f"{case_name(source)}.nii.gz"
        return [PredictedCase(scan_stem(target), (source.absolute(),), target.absolute())]
    if is_label_file(out):
        raise UserError(f"{source} is a folder, and {out.name} the name of one file; give a folder")
    if Project(source).exists:
        cases = {case.id: case.images for case in Project(source).cases_of(part or "test")}
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
