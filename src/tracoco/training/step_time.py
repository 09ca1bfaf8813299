"""How long the steps of a run take on this machine, timed on a copy of it that is thrown away."""

import gc
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tracoco.config import Config, TrainingConfig
from tracoco.data.batch import Batch
from tracoco.data.source import batches
from tracoco.errors import Stopped
from tracoco.evaluation.validation import mean_dice
from tracoco.methods.method import evaluating
from tracoco.processes import StopRequest
from tracoco.project.folder import Project
from tracoco.training.acceleration import accelerate
from tracoco.training.distributed import Process, joined_process, let_train_fast
from tracoco.training.experiment import Experiment
from tracoco.training.starting_weights import load_start
from tracoco.training.trainer import Trainer

WARM_UP = 3
"""First steps, which are slower than others and are not counted."""
TIMED_STEPS, TIMED_SECONDS = 5, 5.0
"""What is counted, at the least: so many steps, for so long."""
LIMIT = 60.0
"""Seconds after which a measurement ends with what it has, unless told otherwise."""
FEWEST = 10
"""Steps of the shortest run."""
ENDLESS = 10**9
"""Steps that the copy never comes to."""
RATE = 1e-6
"""Learning rate of the copy: its weights must not be led astray by steps without a warm-up."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds that the parts of a run take on this machine."""

    seconds: float
    """Of a step, with the wait for its batch."""
    validation: float = 0.0
    """Of scoring all cases that choose `best`; 0 where there are none."""
    saving: float = 0.0
    """Of writing a checkpoint."""

    def run_seconds(self, steps: int, training: TrainingConfig) -> float:
        """Of a run of so many steps, if each of its validations saves a new `best`."""
        validations = ceil(steps / training.validate_every) if self.validation else 0
        savings = ceil(steps / training.save_every) + validations
        return steps * self.seconds + validations * self.validation + savings * self.saving

    def steps_within(self, minutes: float, training: TrainingConfig) -> int:
        """The most steps that a run can take in this time, and never fewer than `FEWEST`."""
        most = int(60 * minutes / self.seconds)
        fitting = bisect_right(
            range(1, most + 1), 60 * minutes, key=lambda steps: self.run_seconds(steps, training)
        )
        return max(FEWEST, fitting)


def measured_step(
    project: Project, config: Config, device: str = "auto", *, limit: float = LIMIT
) -> StepTime:
    """What a run with these settings takes on this machine; nothing of the run is made.

    Args:
        project: it is prepared.
        config: the settings; `steps` and `minutes` may be anything.
        device: as for a training.
        limit: seconds after which no further step is timed, and no further case is scored.
    """
    experiment = Experiment.of(project, config)
    with joined_process(device) as process:
        let_train_fast(process.device)
        return timed_steps(experiment, process, StopRequest(), limit)


def timed_steps(
    experiment: Experiment, process: Process, stop: StopRequest, limit: float
) -> StepTime:
    """Time the steps of an experiment; all processes get the times of the slowest."""
    try:
        with (
            TemporaryDirectory(prefix="tracoco-") as folder,
            torch.random.fork_rng(devices=[]),  # a caller's generator is none of our business
        ):
            own = _own_times(experiment, process, stop, limit, Path(folder))
    finally:
        _let_go(process.device, compiled=experiment.config.training.compile)
    step, validation, saving = process.largest([round(1e6 * part) for part in own])
    return StepTime(max(1, step) / 1e6, validation / 1e6, saving / 1e6)


def _own_times(
    experiment: Experiment, process: Process, stop: StopRequest, limit: float, folder: Path
) -> tuple[float, float, float]:
    """Seconds of a step, a validation and a checkpoint in this process."""
    trainer = _copy(experiment, process, folder)
    workers, pinned = experiment.config.data.workers, process.device.type == "cuda"
    source, times = experiment.source(process), list[float]()
    with closing(batches(source, trainer.step, ENDLESS, workers, pinned=pinned)) as read:
        signal = trainer.fit(_until_timed(read, times, process, limit), None, stop).signal
    if signal:
        raise Stopped("stopped before the first step; nothing is saved", signal)
    validation = _validation_seconds(experiment, trainer, limit) if process.leads else 0.0
    began = process.clock()
    trainer.save("last.pt")
    return _mean_seconds(times), validation, process.clock() - began


def _copy(experiment: Experiment, process: Process, folder: Path) -> Trainer:
    """A trainer as the run will have it, in the middle of the run.

    Some methods begin with a stage of their own, which takes less time than the others.
    """
    config = experiment.config
    method = experiment.method(process)
    if experiment.start:
        load_start(experiment.start, method)
    acceleration = accelerate(method, config.training, process.device, experiment.crops_shape)
    endless = config.training.model_copy(update={"steps": ENDLESS, "save_every": ENDLESS})
    slow = config.optimizer.model_copy(update={"lr": RATE})
    config = config.model_copy(update={"training": endless, "optimizer": slow})
    trainer = Trainer(
        method,
        config,
        folder,
        process,
        identity={},
        acceleration=acceleration,
        labelled_fractions=experiment.labelled_fractions,
    )
    trainer.step = experiment.config.training.length // 2
    trainer.unlabelled = None  # as when unlabelled crops count, which takes longer
    return trainer


def _until_timed(
    read: Iterable[Batch], times: list[float], process: Process, limit: float
) -> Iterator[Batch]:
    """Hand on batches until enough steps were taken, for all processes at once.

    `times` gets the moment at which each batch is there, so that two of them have between them a
    step and the wait for the next batch.
    """
    for batch in read:
        times.append(process.clock())
        (wanted,) = process.largest([not _enough(times, limit)])
        if not wanted:
            return
        yield batch


def _enough(times: list[float], limit: float) -> bool:
    """Whether the steps that were taken tell how long one takes: two at the least."""
    if len(times) <= 2:
        return False
    counted = times[WARM_UP:]
    steady = len(counted) > TIMED_STEPS and counted[-1] - counted[0] >= TIMED_SECONDS
    return steady or times[-1] - times[0] >= limit


def _mean_seconds(times: list[float]) -> float:
    """Of the steps after the first ones, or of the last one if there are no others."""
    counted = times[min(WARM_UP, len(times) - 2) :]
    return (counted[-1] - counted[0]) / (len(counted) - 1)


def _validation_seconds(experiment: Experiment, trainer: Trainer, limit: float) -> float:
    """Score cases for so long at most, and scale the time up to the voxels of all."""
    cases, inference = experiment.choosing_cases, experiment.config.inference
    method, process = trainer.method, trainer.process
    began, voxels = process.clock(), 0
    with evaluating(method):
        for case in cases:
            mean_dice(method, [case], experiment.crop, inference, process.device)
            voxels += prod(case.shape)
            seconds = process.clock() - began
            if seconds >= limit:
                break
    return seconds * sum(prod(case.shape) for case in cases) / voxels if cases else 0.0


def _let_go(device: torch.device, *, compiled: bool) -> None:
    """Give back what the copy took, so that the run finds the machine as if it had not been."""
    gc.collect()
    if compiled:
        torch.compiler.reset()
    if device.type == "cuda":
        torch.cuda.empty_cache()
