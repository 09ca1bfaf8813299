"""Crop pairs a second out of the store, and whether a training ever waits for them."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.agreement import check_close
from benchmarks.alternatives import WholeVolumes, write_hdf5
from benchmarks.material import write_data_set
from benchmarks.row import Row, part
from benchmarks.timing import best_of
from tracoco.data.batch import Batch
from tracoco.data.source import BatchSource, batches
from tracoco.geometry import Size
from tracoco.presets import load_config
from tracoco.processes import StopRequest
from tracoco.project.create import init_project
from tracoco.project.plan import write_plan
from tracoco.project.prepare import prepare
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.logger import RunLogger, SilentDisplay
from tracoco.training.trainer import Trainer

SHAPE = (200, 180, 88)
"""A cropped scan of the Left Atrium."""
PAIRS = 4
"""Crop pairs of a batch, 2 of them labelled."""
AUGMENTED = ("data.flips=all", "data.turns=true")
"""All that can be done to a crop, brightness included, which is on by default."""
WITHOUT = ("data.augmentation.strength=off",)
FULL = ("data.augmentation.strength=full",)
ALONE = Process(0, 1, torch.device("cpu"))


def rows(work: Path) -> list[Row]:
    """Both rows on eight volumes, of which four are labelled."""
    data = write_data_set(work / "scans", SHAPE, labelled=4, unlabelled=4, suffix=".nii")
    project = init_project(data, work / "project")
    # The other side brightens within [0, 1].
    plan = project.load_plan().model_copy(update={"normalisation": "range"})
    write_plan(project.plan_file, plan)
    prepare(project)

    def experiment(crop: Size, *settings: str) -> Experiment:
        return Experiment.of(project, load_config(None, [f"data.crop={list(crop)}", *settings]))

    large, small = (112, 112, 80), (48, 40, 24)
    plain = experiment(large, *AUGMENTED, *WITHOUT)
    return [
        _against_hdf5(plain.source(ALONE)),
        _interpolated(experiment(large, *FULL), plain),
        _against_step(experiment(small, *FULL), "a TraCoCo", work / "tracoco"),
        _against_step(
            experiment(small, *FULL, "method.name=supervised"), "a supervised", work / "supervised"
        ),
    ]


def _against_hdf5(source: BatchSource) -> Row:
    write_hdf5(source.store)
    theirs = WholeVolumes(
        source.store, source.labelled, source.unlabelled, source.rule, source.seed
    )
    _check_same(source[0], theirs[0])
    ours_seconds, their_seconds = float("inf"), float("inf")
    for _ in range(3):
        ours_seconds = min(ours_seconds, batch_seconds(source, 40))
        their_seconds = min(their_seconds, batch_seconds(theirs, 6))
    ours, other = PAIRS / ours_seconds, PAIRS / their_seconds
    return Row(
        "crop pairs of 112 x 112 x 80 a second, augmented, one worker",
        "whole volumes of gzip-HDF5 (h5py, level 4), same crops and augmentation",
        ours,
        other,
        "pairs/s",
        ours / other,
        "at least",
        50,
        f"Volumes of {' x '.join(map(str, SHAPE))}, warm page cache; both give the same crops. "
        f"A batch of 2 + 2 pairs takes {1000 * ours_seconds:.0f} ms, theirs "
        f"{1000 * their_seconds:.0f} ms. For 50 times, a pair of 8 MB has to be there within "
        f"{1000 * their_seconds / PAIRS / 50:.1f} ms; one multiplication of its voxels, neither "
        f"turned nor flipped, from memory to memory takes {1000 * _floor():.1f} ms.",
    )


def _interpolated(full: Experiment, plain: Experiment) -> Row:
    """What rotation, scaling and changes of intensity cost, on top of reading a crop."""
    seconds = [
        min(batch_seconds(each.source(ALONE), 12) for _ in range(3)) for each in (full, plain)
    ]
    ours, other = (PAIRS / each for each in seconds)
    return Row(
        "crop pairs of 112 x 112 x 80 a second with interpolation, one worker",
        "the same without interpolation",
        ours,
        other,
        "pairs/s",
        ours / other,
        "at least",
        0.04,
        f"Full augmentation: a batch of 2 + 2 pairs takes {1000 * seconds[0]:.0f} ms with "
        f"interpolation and {1000 * seconds[1]:.0f} ms without.",
    )


def _floor() -> float:
    """Seconds to brighten a pair of crops out of volumes in memory, whole rows to whole rows."""
    random = np.random.default_rng(0)
    volumes = [random.random(SHAPE, dtype=np.float32) for _ in range(8)]
    crops = np.zeros((8, 112, 112, 80), dtype=np.float32)

    def brighten() -> None:
        for volume, crop in zip(volumes, crops, strict=True):
            np.multiply(volume[40:152, 30:142, 4:84], np.float32(0.9), out=crop)

    (taken,) = best_of(5, brighten)
    return taken / 4


def _against_step(experiment: Experiment, what: str, folder: Path) -> Row:
    """Full augmentation beside a step of the light UNet; slower networks leave more time."""
    source = experiment.source(ALONE)
    loading = min(batch_seconds(source, 40) for _ in range(3))
    folder.mkdir()
    trainer = Trainer(
        experiment.method(ALONE), experiment.config, folder, ALONE, identity={"run": "benchmark"}
    )
    waits: list[float] = []
    shares, advice = experiment.labelled_fractions, trainer.method.advice
    with RunLogger(folder, 0, shares, SilentDisplay(), advice=advice) as logger:
        read_ahead = _timed(batches(source, 0, 20, workers=1), waits)
        trainer.fit([next(read_ahead)], logger, StopRequest())
        began = time.perf_counter()
        trainer.fit(read_ahead, logger, StopRequest())
        taken = time.perf_counter() - began
    steps = len(waits) - 1
    waited = sum(waits[1:])
    return part(
        "a batch from one worker, full augmentation",
        f"{what} step of the light UNet, crops of 48 x 40 x 24",
        (loading, (taken - waited) / steps),
        "s",
        1.0,
        f"Over {steps} steps with the worker beside it, the training waited for data during "
        f"{100 * waited / taken:.1f} % of its time.",
    )


def batch_seconds(source: BatchSource, count: int) -> float:
    """Seconds from one batch of a worker to the next, once the first is there."""
    reader = batches(source, 0, count + 1, workers=1)
    next(reader)
    began = time.perf_counter()
    for _ in reader:
        pass
    return (time.perf_counter() - began) / count


def _timed(reader: Iterator[Batch], waits: list[float]) -> Iterator[Batch]:
    """The same batches; how long each was waited for is noted."""
    while True:
        began = time.perf_counter()
        batch = next(reader, None)
        waits.append(time.perf_counter() - began)
        if batch is None:
            return
        yield batch


def _check_same(ours: Batch, theirs: Batch) -> None:
    check_close("first crops", ours.first.values, theirs.first.values, 1e-6)
    check_close("second crops", ours.second.values, theirs.second.values, 1e-6)
    check_close("labels", ours.labels, theirs.labels, 0)
