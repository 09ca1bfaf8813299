"""Cost against size: twice the voxels or twice the cases, twice the time and no more memory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from shutil import copyfile, rmtree

import numpy as np
import torch

from benchmarks.material import draw_organ, write_data_set, write_nifti
from benchmarks.memory import anonymous_mb, in_fresh_process, in_tidy_process
from benchmarks.row import Row, part
from benchmarks.timing import best_of, growth_exponent
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.geometry import Size
from tracoco.inference.predict import predict_scans
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.training.train import train

MOST_EXPONENT = 1.05
STEPS = (1, 2, 4, 8)
"""How many times larger than the smallest."""
FEWEST_CASES = 1
NETWORK = ("network.filters=4", "data.crop=[32, 32, 32]", "method.name=supervised")
"""One that is fast enough to go through all of it."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the smallest scan that it is timed on.

    Larger ones have more slices, as scans of larger parts of the body have. The smallest is far
    larger than the processor's caches; for windows it is long enough that the ends, where fewer of
    them overlap, hardly count.
    """

    name: str
    call: Callable[[Path], object]
    smallest: tuple[int, int, int]


def rows(work: Path) -> list[Row]:
    """Time against voxels and against cases, of three commands; then memory against cases."""
    run = trained_run(work / "run")
    commands = (
        Command("prepare", prepare_again, (180, 180, 90)),
        Command("predict", partial(predict_again, run), (48, 48, 288)),
        Command("evaluate", evaluate_again, (180, 180, 90)),
    )
    return [
        *(against_voxels(command, work / "voxels") for command in commands),
        *(against_cases(command, work / "cases") for command in commands),
        memory_row(work),
    ]


def against_voxels(command: Command, work: Path) -> Row:
    """One scan that becomes longer."""
    a, b, slices = command.smallest
    folders = [write_cases(work / f"{a * b * slices * n}", (a, b, n * slices), 1) for n in STEPS]
    return _row(command, "voxels of a scan", folders, [a * b * slices * n for n in STEPS])


def against_cases(command: Command, work: Path) -> Row:
    """Scans of one size that become more."""
    counts = [FEWEST_CASES * n for n in STEPS]
    voxels = prod(command.smallest)
    folders = [write_cases(work / f"{voxels}x{n}", command.smallest, n) for n in counts]
    return _row(command, "cases", folders, counts)


def _row(command: Command, of: str, folders: list[Path], sizes: list[int]) -> Row:
    repeats = [STEPS[-1] // n for n in STEPS]
    calls = (partial(_repeated, command.call, *each) for each in zip(folders, repeats, strict=True))
    best = [s / n for s, n in zip(best_of(3, *calls, warm=True), repeats, strict=True)]
    exponent = growth_exponent(sizes, best)
    figures = ", ".join(f"{n:,}: {s:.2f} s" for n, s in zip(sizes, best, strict=True))
    return Row(
        f"{command.name}: time against {of}",
        "proportion, exponent 1",
        exponent,
        1.0,
        "exponent",
        exponent,
        "at most",
        MOST_EXPONENT,
        f"Fitted to {figures}. One process, small sizes so often in a row that all take equally "
        "long; nothing is subtracted.",
    )


def _repeated(call: Callable[[Path], object], folder: Path, times: int) -> None:
    """All sizes are timed for equally long: a short call more easily finds the machine at rest."""
    for _ in range(times):
        call(folder)


def write_cases(root: Path, shape: Size, count: int) -> Path:
    """A project whose scans are all one scan: only their number differs, not what is in them.

    Commands that are timed on the same sizes find the same files.
    """
    if root.exists():
        return root
    one = write_data_set(root / "one", shape, labelled=1, unlabelled=0)
    moved = np.roll(draw_organ(shape, seed=0), 2, axis=0).astype(np.uint8)
    write_nifti(one / "moved" / "case000.nii.gz", moved)
    for source in sorted(one.rglob("*.nii.gz")):
        folder = root / "scans" / source.parent.name
        folder.mkdir(parents=True)
        for index in range(count):
            copyfile(source, folder / f"case{index:03d}.nii.gz")
    rmtree(one)
    (root / "scans" / "moved").rename(root / "moved")
    init_project(root / "scans", root / "project")
    return root


def prepare_again(root: Path) -> None:
    """Fill an empty store."""
    project = Project(root / "project")
    rmtree(project.store_root, ignore_errors=True)
    prepare(project)


def predict_again(run: Path, root: Path) -> None:
    """Predict all scans, also those that are predicted already."""
    predict_scans(run, root / "scans" / "images", root / "predicted", redo=True, device="cpu")


def evaluate_again(root: Path) -> None:
    """Score labels that are two voxels off."""
    evaluate_predictions(root / "moved", root / "scans" / "labels")


def trained_run(root: Path) -> Path:
    """A training of one step, which is enough to predict with."""
    write_cases(root, (48, 48, 48), 2)
    prepare_again(root)
    config = load_config(None, [*NETWORK, "training.steps=1", "data.workers=0"])
    train(Project(root / "project"), config, root / "run", device="cpu")
    return root / "run"


def memory_row(work: Path) -> Row:
    """The page cache is the cache: what is trained on is not held."""
    few, many = (in_tidy_process(trained_mb, work / f"cases{count}", count) for count in (10, 200))
    return part(
        "memory of a training on 200 cases",
        "the same on 10 cases",
        (many, few),
        "MB",
        1.02,
        "Anonymous memory after 30 steps that pass all cases; held in memory, the further 190 "
        "volumes of 48 x 48 x 48 would take 84 MB.",
    )


def trained_mb(root: Path, count: int) -> float:
    """Memory of this process after a training; every case is passed twice."""
    torch.set_num_threads(1)
    data = write_data_set(root / "scans", (48, 48, 48), labelled=2, unlabelled=count - 2)
    project = init_project(data, root / "project")
    in_fresh_process(prepare, project)
    settings = ["training.steps=30", "network.filters=4", "data.crop=[16, 16, 16]"]
    settings += ["data.workers=0", "data.unlabelled_batch=8"]
    train(project, load_config(None, settings), root / "run", device="cpu")
    return anonymous_mb()
