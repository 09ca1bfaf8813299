"""How long the steps of a run take on this machine, timed on a copy of it that is thrown away."""

import gc
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import astuple, dataclass
from math import ceil, prod
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tracoco.config import TrainingConfig
from tracoco.data.batch import Batch
from tracoco.data.source import batches
from tracoco.errors import Stopped
from tracoco.evaluation.validation import mean_dice
from tracoco.methods.method import evaluating
from tracoco.processes import StopRequest
from tracoco.training.acceleration import accelerate
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.pseudo_label_monitor import EARLIEST
from tracoco.training.starting_weights import load_start
from tracoco.training.trainer import Trainer

WARM_UP = 3
"""First steps, which are slower than others and are not counted."""
TIMED_STEPS, TIMED_SECONDS = 5, 5.0
"""What is counted, at the least: so many steps, for so long."""
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
    early: float = 0.0
    """Of a step before unlabelled crops may count; 0 where they count from the first step on."""

    def run_seconds(self, steps: int, training: TrainingConfig) -> float:
        """Of a run of so many steps, if each of its validations saves a new `best`."""
        validations = ceil(steps / training.validate_every) if self.validation else 0
        savings = ceil(steps / training.save_every) + validations
        early = min(steps, EARLIEST) if self.early else 0
        taken = early * self.early + (steps - early) * self.seconds
        return taken + validations * self.validation + savings * self.saving

    def steps_within(self, minutes: float, training: TrainingConfig) -> int:
        """The most steps that a run can take in this time, and never fewer than `FEWEST`."""
        most = int(60 * minutes / min(self.seconds, self.early or self.seconds))
        fitting = bisect_right(
            range(1, most + 1), 60 * minutes, key=lambda steps: self.run_seconds(steps, training)
        )
        return max(FEWEST, fitting)


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
    slowest = process.largest([round(1e6 * part) for part in astuple(own)])
    seconds, *others = (part / 1e6 for part in slowest)
    return StepTime(max(1e-6, seconds), *others)


def _own_times(
    experiment: Experiment, process: Process, stop: StopRequest, limit: float, folder: Path
) -> StepTime:
    """What the parts of the run take in this process."""
    trainer = _copy(experiment, process, folder)
    watched, trainer.unlabelled = trainer.unlabelled, None  # as when unlabelled crops count
    seconds, early = _step_seconds(experiment, trainer, stop, limit), 0.0
    if watched:
        trainer.unlabelled = watched
        early = min(seconds, _step_seconds(experiment, trainer, stop, limit))
    validation = _validation_seconds(experiment, trainer, limit) if process.leads else 0.0
    began = process.clock()
    trainer.save("last.pt")
    return StepTime(seconds, validation, process.clock() - began, early)


def _step_seconds(
    experiment: Experiment, trainer: Trainer, stop: StopRequest, limit: float
) -> float:
    """Seconds of a step, with the wait for its batch."""
    process, workers = trainer.process, experiment.config.data.workers
    source, pinned, times = experiment.source(process), process.device.type == "cuda", list[float]()
    with closing(batches(source, trainer.step, ENDLESS, workers, pinned=pinned)) as read:
        signal = trainer.fit(_until_timed(read, times, process, limit), None, stop).signal
    if signal:
        raise Stopped("stopped before the first step; nothing is saved", signal)
    return _mean_seconds(times)


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
