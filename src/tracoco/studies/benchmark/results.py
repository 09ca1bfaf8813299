"""The result of one run, small enough to commit, and the folder that keeps the results."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch

from tracoco.components import remove_small_components
from tracoco.errors import UserError
from tracoco.evaluation.scores import Evaluation, Protocol
from tracoco.files import read_json, write_json
from tracoco.inference.manifest import Manifest, merged_manifest
from tracoco.lock_file import sweep
from tracoco.memory import give_back_freed_memory
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.scans.reader import read_label
from tracoco.studies.benchmark.grid import GridRun

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"
"""What Linux takes as the order to count the peak of resident memory anew."""


@contextmanager
def peak_noted(folder: Path, device: torch.device) -> Iterator[None]:
    """Note in a run's folder how much was held at most; a run in parts has the most of them.

    On a GPU it is what torch had allocated there, elsewhere the memory of this process, torch
    itself included. On systems that do not tell nothing is noted.
    """
    counting = start_count(device)
    try:
        yield
    finally:
        if counting and RunFolder(folder).begun:  # a start that failed left nothing
            peak = max(noted_peak(folder) or 0.0, counted_mb(device))
            write_json(folder / "memory.json", {"peak_mb": peak})


def noted_peak(folder: Path) -> float | None:
    """The peak of a run in MB of a million bytes, if it was noted."""
    path = folder / "memory.json"
    return float(read_json(path)["peak_mb"]) if path.exists() else None


def start_count(device: torch.device) -> bool:
    """Forget earlier peaks, and give back what earlier runs of this process have freed.

    False where the system does not let peaks be counted anew: an old one says nothing of a run.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    give_back_freed_memory()
    try:
        RESET.write_text(FORGET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def counted_mb(device: torch.device) -> float:
    """The peak since the count started."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    lines = STATUS.read_text(encoding="ascii").splitlines()
    held = next(line for line in lines if line.startswith("VmHWM"))
    return int(held.split()[1]) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run on its test cases. Overlaps in percent, distances in the protocol's units."""

    dataset: str
    method: str
    labelled: int
    unlabelled: int
    seed: int
    steps: int
    checkpoint: str
    cases: int
    dice: float | None
    jaccard: float | None
    asd: float | None
    hd95: float | None
    missed: int
    units: str
    empty: str
    cct: bool
    watermark: str
    """What must be said wherever the figures are shown."""
    case_dice: dict[str, float]
    """Mean over the structures of each case, so that two runs can be compared case by case."""
    seconds: float
    """Of all steps together, validation and saving not counted."""
    seconds_a_step: float
    """Median of the run."""
    seconds_a_case: float
    """Median of the predictions."""
    versions: dict[str, Any]
    peak_mb: float | None = None
    """The most memory that the training held; None where the system does not tell."""
    recipe: str = "unrecorded"
    """Where the settings of the training come from: `common`, `released` or `paper`."""
    machine: str = ""
    """The processor or GPU that trained it; empty for results of before it was recorded."""
    precision: str = ""
    """What the training computed in; empty likewise."""


def write_result(path: Path, result: RunResult) -> None:
    """Keep a result."""
    write_json(path, asdict(result))


def read_result(path: Path) -> RunResult:
    """Read a result that was kept."""
    try:
        return RunResult(**read_json(path))
    except TypeError as error:
        raise UserError(f"{path} is of another version; delete it and run again") from error


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean over seeds and its spread (n - 1), which a single seed does not have."""

    mean: float
    sd: float | None
    count: int


def over_seeds(results: Sequence[object], figure: str) -> Spread | None:
    """Mean and spread of one attribute over the results that have it; None if none has."""
    values = [value for each in results if (value := getattr(each, figure)) is not None]
    if not values:
        return None
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results."""

    root: Path

    def path(self, run: GridRun) -> Path:
        """The file of one run."""
        return self.root / f"{run.name}.json"

    def keep(self, run: GridRun, folder: Path, result: RunResult) -> None:
        """Write down what came of a run, its row, and its folder's name."""
        self.root.mkdir(parents=True, exist_ok=True)
        sweep(self.root)  # no command locks this folder: workers of several hosts write into it
        write_json(self.path(run), {"row": run.row, "run": folder.name, **asdict(result)})

    def find(self, run: GridRun, folder: Path) -> RunResult | None:
        """The result of a run, if it is there and of just this folder.

        A folder's name changes with every setting and every scan, so a result of others is none.
        """
        kept = self.read(run)
        return kept[1] if kept and kept[0] == folder.name else None

    def read(self, run: GridRun) -> tuple[str, RunResult] | None:
        """The name of the folder that a result is of, and the result; None if there is none."""
        path = self.path(run)
        return kept_result(read_json(path), path) if path.exists() else None


def kept_result(values: dict[str, Any], source: Path) -> tuple[str, RunResult]:
    """The name of the run's folder and the result, out of what `Results.keep` has written."""
    figures = {key: value for key, value in values.items() if key not in {"row", "run"}}
    try:
        return str(values["run"]), RunResult(**figures)
    except (KeyError, TypeError) as error:
        raise UserError(f"{source} is of another version; delete it and run again") from error


def run_result(folder: Path, dataset: str, checkpoint: str, evaluation: Evaluation) -> RunResult:
    """Sum up a run that is trained, predicted and scored.

    Args:
        folder: of the run.
        dataset: what results call the data.
        checkpoint: the one whose predictions were scored.
        evaluation: scores of the test cases.
    """
    run = RunFolder(folder)
    config, splits = run.config(), run.splits()
    summary, protocol = evaluation.summary, evaluation.protocol
    log = read_log(run.log_file)
    predictions = merged_manifest(folder / "predictions" / checkpoint)
    facts = run.facts()
    return RunResult(
        dataset=dataset,
        method=config.method.name,
        labelled=len(splits.labelled),
        unlabelled=len(splits.unlabelled) if config.data.batch[1] else 0,
        seed=config.seed,
        steps=config.training.length,
        checkpoint=checkpoint,
        cases=summary.cases,
        dice=summary.dice,
        jaccard=summary.jaccard,
        asd=summary.asd,
        hd95=summary.hd95,
        missed=summary.missed,
        units=protocol.units,
        empty=protocol.empty,
        cct=protocol.cct,
        watermark=evaluation.watermark,
        case_dice=case_dice(evaluation),
        seconds=sum(record.seconds for record in log),
        seconds_a_step=median(record.seconds for record in log),
        seconds_a_case=median(predictions.seconds) + _cleaning(predictions, protocol),
        versions=facts.versions,
        peak_mb=noted_peak(folder),
        recipe=config.recipe,
        machine=facts.machine or "",
        precision=run.recorded_precision() or "",
    )


def case_dice(evaluation: Evaluation) -> dict[str, float]:
    """Mean Dice of each case that has one, in the order of their names."""
    cases = sorted(evaluation.cases, key=lambda case: case.case)
    return {case.case: case.dice for case in cases if case.dice is not None}


def _cleaning(predictions: Manifest, protocol: Protocol) -> float:
    """Seconds that the removal of small components takes a case, if the protocol has it."""
    if not protocol.cct:
        return 0.0
    seconds = []
    for row in predictions.rows:
        label = read_label(row.prediction).array
        began = time.perf_counter()
        remove_small_components(label)
        seconds.append(time.perf_counter() - began)
    return median(seconds)
