"""Predict a file or a folder, and leave a note of what was predicted from what."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from tracoco.console import counted
from tracoco.errors import UserError
from tracoco.files import write_json
from tracoco.inference.predictor import Predictor
from tracoco.scans.reader import is_scan, scan_stem


@dataclass(frozen=True, slots=True)
class PredictedCase:
    """One scan and the file that its labels went to."""

    case: str
    image: Path
    prediction: Path


def planned_predictions(source: Path, out: Path) -> list[PredictedCase]:
    """Which file each scan's labels go to; `out` is a file only where `source` is one."""
    if source.is_file():
        target = out if is_scan(out) else out / f"{scan_stem(source)}.nii.gz"
        return [PredictedCase(scan_stem(target), source.absolute(), target.absolute())]
    if not source.is_dir():
        raise UserError(f"{source} does not exist; give a scan, or a folder of scans")
    scans = sorted(path for path in source.iterdir() if is_scan(path))
    if not scans:
        raise UserError(f"{source} holds no scans; give a folder of .nii or .nii.gz files")
    stems = [scan_stem(path) for path in scans]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if twice:
        raise UserError(f"{source} holds two scans of the name {', '.join(twice)}; rename one")
    return [
        PredictedCase(stem, path.absolute(), (out / f"{stem}.nii.gz").absolute())
        for stem, path in zip(stems, scans, strict=True)
    ]


def predict_scans(
    run: Path,
    source: Path,
    out: Path,
    *,
    checkpoint: str = "last",
    device: str = "auto",
    console: Console | None = None,
) -> list[PredictedCase]:
    """Predict a scan or a folder of scans with a run; `predictions.json` says what came of what."""
    cases = planned_predictions(source, out)
    predictor = Predictor.load(run, checkpoint=checkpoint, device=device)
    with counted("predicting", len(cases), console) as on_case:
        for case in cases:
            predictor(case.image).write(case.prediction)
            on_case(case.case)
    plan = predictor.plan
    names = zip(plan.label_values[1:], plan.class_names[1:], strict=True)
    note = {
        "run": str(run.absolute()),
        "checkpoint": checkpoint,
        "labels": {str(value): name for value, name in names},
        "rows": [{key: str(value) for key, value in asdict(case).items()} for case in cases],
    }
    write_json(cases[0].prediction.parent / "predictions.json", note)
    return cases
