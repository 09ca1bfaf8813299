"""Predict a file or a folder, and leave a note of what was predicted from what."""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tracoco.console import counted
from tracoco.errors import UserError, raise_all
from tracoco.files import read_json, write_json
from tracoco.inference.predictor import Prediction, Predictor
from tracoco.project.folder import Project
from tracoco.project.preprocess import check_channels
from tracoco.project.problems import collected
from tracoco.scans.reader import is_scan, read_grids, read_images, scan_stem, scans_in


@dataclass(frozen=True, slots=True)
class PredictedCase:
    """One scan and the file that its labels went to."""

    case: str
    images: tuple[Path, ...]
    prediction: Path
    seconds: float | None = None
    """From the scan in memory to labels on its grid; without reading and writing files."""


def planned_predictions(source: Path, out: Path) -> list[PredictedCase]:
    """Which file each scan's labels go to.

    Args:
        source: a scan, a folder of scans, or a project, which stands for its test cases.
        out: a folder; a file only where `source` is one.
    """
    if source.is_file():
        target = out if is_scan(out) else out / f"{scan_stem(source)}.nii.gz"
        return [PredictedCase(scan_stem(target), (source.absolute(),), target.absolute())]
    if not source.is_dir():
        raise UserError(f"{source} does not exist; give a scan, or a folder of scans")
    if Project(source).exists:
        return _planned(out, {case.id: case.images for case in Project(source).test_cases()})
    scans = scans_in(source)
    if not scans:
        raise UserError(f"{source} holds no scans; give a folder of .nii or .nii.gz files")
    stems = [scan_stem(path) for path in scans]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if twice:
        raise UserError(f"{source} holds two scans of the name {', '.join(twice)}; rename one")
    return _planned(out, {stem: (scan,) for stem, scan in zip(stems, scans, strict=True)})


def _planned(out: Path, cases: dict[str, tuple[Path, ...]]) -> list[PredictedCase]:
    return [
        PredictedCase(
            case, tuple(path.absolute() for path in images), (out / f"{case}.nii.gz").absolute()
        )
        for case, images in cases.items()
    ]


def predict_scans(  # noqa: PLR0913 - each is a choice of the user's, with a default
    run: Path,
    source: Path,
    out: Path,
    *,
    checkpoint: str = "last",
    cct: bool = False,
    device: str = "auto",
    console: Console | None = None,
) -> list[PredictedCase]:
    """Predict a scan or a folder of scans with a run; `predictions.json` says what came of what.

    With `cct`, components that are too small to be believed are removed from every prediction.
    """
    cases = planned_predictions(source, out)
    note_file = cases[0].prediction.parent / "predictions.json"
    before = {"rows": [], "cct": False} | (read_json(note_file) if note_file.exists() else {})
    origin = {"run": str(run.absolute()), "checkpoint": checkpoint, "cct": cct}
    predictor = Predictor.load(run, checkpoint=checkpoint, device=device)
    problems = [*_overwritten(cases, before), *_mixed(cases, origin, before)]
    raise_all([*problems, *unlike_scans(cases, predictor)])
    # The note comes first, so that what an interrupted prediction leaves is known to be ours.
    write_json(note_file, _note(cases, predictor, origin, before))
    note_file.with_name("scores.json").unlink(missing_ok=True)  # they were of other predictions
    done = []
    with counted("predicting", len(cases), console) as on_case:
        for case in cases:
            prediction, seconds = _timed(predictor, case.images, cct=cct)
            prediction.write(case.prediction)
            done.append(replace(case, seconds=seconds))
            on_case(case.case)
    write_json(note_file, _note(done, predictor, origin, before))
    return done


def _timed(
    predictor: Predictor, images: tuple[Path, ...], *, cct: bool
) -> tuple[Prediction, float]:
    scan = read_images(images)
    began = time.perf_counter()
    prediction = predictor(scan)
    if cct:
        prediction = prediction.without_specks()
    return prediction, time.perf_counter() - began


def _overwritten(cases: list[PredictedCase], before: dict[str, Any]) -> list[str]:
    """Files that are not predictions of ours: scans, or labels that somebody drew by hand."""
    ours = {row["prediction"] for row in before["rows"]}
    return [
        f"{case.prediction} exists and is no prediction of tracoco; choose another OUT"
        for case in cases
        if case.prediction.exists() and str(case.prediction) not in ours
    ]


def _mixed(cases: list[PredictedCase], origin: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Predictions made otherwise that would stay: scored together, they would pass for one."""
    if origin.items() <= before.items():
        return []
    replaced = {str(case.prediction) for case in cases}
    return [
        f"{row['prediction']} is a prediction of {before['run']}, made with the checkpoint "
        f"{before['checkpoint']} and {'with' if before['cct'] else 'without'} --cct; "
        "choose another OUT"
        for row in before["rows"]
        if row["prediction"] not in replaced and Path(row["prediction"]).exists()
    ]


def unlike_scans(cases: list[PredictedCase], predictor: Predictor) -> list[str]:
    """Scans that cannot be read, or that have other channels; told before the first prediction."""
    problems: list[str] = []
    for case in cases:
        with collected(problems):
            header = read_grids(case.images)
            check_channels(header.channels, predictor.plan, header.source)
    return problems


def _note(
    cases: list[PredictedCase], predictor: Predictor, origin: dict[str, Any], before: dict[str, Any]
) -> dict[str, Any]:
    """What came of what; earlier predictions of the same run in that folder stay listed."""
    same_run = origin.items() <= before.items()
    rows = {row["case"]: row for row in before["rows"]} if same_run else {}
    for case in cases:
        paths = {"images": [*map(str, case.images)], "prediction": str(case.prediction)}
        rows[case.case] = asdict(case) | paths
    plan = predictor.plan
    names = zip(plan.label_values[1:], plan.class_names[1:], strict=True)
    labels = {str(value): name for value, name in names}
    facts = {"watermark": predictor.watermark, "labels": labels}
    return origin | facts | {"rows": list(rows.values())}
