"""Measure the pseudo-labels of a training over its steps, against labels that were hidden from it.

    python -m benchmarks.real.measure_pseudo_labels keep PROJECT CHECKPOINTS
    python -m benchmarks.real.measure_pseudo_labels measure GRID PROJECT CHECKPOINTS

`keep` runs beside `tracoco benchmark`, until it is stopped, and copies every checkpoint that a run
of the project saves: a run itself keeps the last one alone. `measure` asks the kept ones.
"""

import argparse
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.real.measured import keep, trained_runs
from benchmarks.real.pseudo_labels import FORMS, KIND, PseudoLabels
from tracoco.console import say
from tracoco.data.batch import Batch
from tracoco.data.crop_pair import CropRule
from tracoco.data.source import BatchSource
from tracoco.losses.weighting import most_likely
from tracoco.methods.method import uniform_noise
from tracoco.methods.parts.co_training import CoTraining
from tracoco.methods.parts.student_teacher import clean_pass
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.runs.build import run_crop, run_method
from tracoco.runs.folder import RunFolder, load_checkpoint
from tracoco.studies.benchmark.grid import GridRun

ROOT = Path(__file__).parent
BATCHES = 12
SECONDS = 5
EMPTY = 0.1
"""Part of the true foreground below which a batch counts as empty."""


def keep_checkpoints(project: Path, out: Path) -> None:
    """Copy the checkpoints of all runs of a project as they are saved, by the time of saving."""
    while True:
        for last in project.glob("benchmark/*/last.pt"):
            copy = out / last.parent.name / f"{last.stat().st_mtime_ns}.pt"
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(last, copy)
        time.sleep(SECONDS)


def measure(root: Path, name: str, project: Path, checkpoints: Path) -> Path:
    """Measure what was kept of the trained runs of a grid with one data set."""
    store = Store(Project(project).store_root)
    found = [
        asdict(figures)
        for run, folder in trained_runs(root / f"{name}.yaml", project)
        for file in sorted((checkpoints / folder.name).glob("*.pt"))
        for figures in of_checkpoint(run, RunFolder(folder), file, store)
    ]
    return keep(root, KIND, name, found)


def of_checkpoint(
    run: GridRun, folder: RunFolder, file: Path, store: Store
) -> Iterator[PseudoLabels]:
    """The figures of one checkpoint; none if its method does not make pseudo-labels by itself."""
    config, plan = folder.config(), folder.plan()
    method = run_method(config, plan)
    if not isinstance(method, CoTraining):
        return
    saved = load_checkpoint(file)
    method.load_state_dict(saved["method"])
    method.train()
    data = config.data.model_copy(
        update={"labelled_batch": sum(config.data.batch), "unlabelled_batch": 0}
    )
    rule = CropRule(run_crop(config, plan), (0, 1), turns=False, config=data, pairs=False)
    hidden = [id_ for id_ in folder.splits().unlabelled if store.case(id_).class_voxels]
    source = BatchSource(store, hidden, (), rule, seed=config.seed)
    for form in FORMS:
        torch.manual_seed(0)  # noise and dropout of the training pass
        batches = [source[step].to(torch.device("cpu")) for step in range(BATCHES)]
        counts = [counted(network, plan.classes, batches, method, form) for network in (0, 1)]
        dice = torch.stack([_dice(each) for each in counts]).mean()
        empty = torch.stack([_empty(each) for each in counts]).mean()
        crops = BATCHES * sum(config.data.batch)
        yield PseudoLabels(
            run.row,
            run.labelled,
            run.seed,
            saved["step"],
            form,
            crops,
            100 * float(dice),
            float(empty),
        )
    say(f"{run.name}, step {saved['step']}")


def counted(
    network: int, classes: int, batches: Sequence[Batch], method: CoTraining, form: str
) -> Tensor:
    """Voxels [batch, class, 3]: found and true, found, true."""
    rows = []
    for batch in batches:
        label = most_likely(_logits(method, network, batch.first.values, form))
        valid = batch.first.valid
        rows.append(
            [
                [float(((label == k) & (batch.labels == k) & valid).sum())]
                + [float(((each == k) & valid).sum()) for each in (label, batch.labels)]
                for k in range(classes)
            ]
        )
    return torch.tensor(rows)


@torch.no_grad()
def _logits(method: CoTraining, network: int, crops: Tensor, form: str) -> Tensor:
    asked = method.networks[network]
    if form == "training":
        before = {key: value.clone() for key, value in asked.state_dict().items()}
        logits: Tensor = asked(uniform_noise(crops, method.noise))
        asked.load_state_dict(before)  # a training pass moves the running statistics
        return logits
    with clean_pass(asked, "clean" if form == "clean" else "batch"):
        found: Tensor = asked(crops)
    return found


def _dice(counts: Tensor) -> Tensor:
    """Of all batches together, mean over the structures."""
    both, found, true = counts.sum(dim=0)[1:].unbind(dim=1)
    return (2 * both / (found + true)).mean()


def _empty(counts: Tensor) -> Tensor:
    """Fraction of the batches with next to no foreground."""
    _, found, true = counts[:, 1:].sum(dim=1).unbind(dim=1)
    return (found < EMPTY * true).float().mean()


def main() -> None:
    """Keep checkpoints, or measure those that were kept."""
    parser = argparse.ArgumentParser(description="Quality of pseudo-labels over a training.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (("keep", ()), ("measure", ("grid",))):
        command = commands.add_parser(name)
        for word in words:
            command.add_argument(word, help="name of a grid in benchmarks/real, e.g. la-half-vnet")
        command.add_argument("project", type=Path)
        command.add_argument("checkpoints", type=Path, help="folder of the kept checkpoints")
    asked = parser.parse_args()
    if asked.command == "keep":
        keep_checkpoints(asked.project, asked.checkpoints)
    else:
        measure(ROOT, asked.grid, asked.project, asked.checkpoints)


if __name__ == "__main__":
    main()
