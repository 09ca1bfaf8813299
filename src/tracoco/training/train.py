"""One training, from the first step or from where it was stopped.

Where its length is given in minutes, the steps are measured once and then recorded.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tracoco.config import Config
from tracoco.console import say
from tracoco.data.pseudo_label_files import PseudoLabels
from tracoco.data.source import batches
from tracoco.errors import UserError
from tracoco.evaluation.validation import Show
from tracoco.lock import InUse, only_writer
from tracoco.methods import method_row
from tracoco.processes import StopRequest, stop_on_signals
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.project.preprocess import is_structure
from tracoco.project.store import StoredCase
from tracoco.runs.build import check_step
from tracoco.runs.folder import RunFolder, sound_checkpoint
from tracoco.settings import by_dotted_name
from tracoco.slices import CaseVolumes, case_figure, figure_pixels
from tracoco.text import short
from tracoco.tracking.tracker import (
    UNTRACKED,
    Status,
    TrackedRun,
    Tracking,
    check_installed,
    open_trackers,
)
from tracoco.training.acceleration import Acceleration, accelerate
from tracoco.training.announcement import announcement, warnings
from tracoco.training.distributed import (
    Process,
    joined_process,
    let_train_fast,
)
from tracoco.training.experiment import Experiment
from tracoco.training.fit_result import FitResult
from tracoco.training.logger import RunLogger, shown_progress
from tracoco.training.starting_weights import load_start, starting_weights
from tracoco.training.step_time import StepTime, timed_steps
from tracoco.training.trainer import Trainer

TIMED_FRACTION = 0.05
"""Of the minutes: so long at most are steps of each kind timed, and as long cases scored."""


def with_recorded_steps(config: Config, folder: RunFolder) -> Config:
    """The settings of a run that may have begun: then its minutes have become steps."""
    minutes = config.training.minutes
    if minutes is None or not folder.begun:
        return config
    recorded = folder.config().training
    if recorded.minutes != minutes:
        raise UserError(
            f"{folder.root} was started with other training settings: "
            f"{{'minutes': {recorded.minutes}}}, now {{'minutes': {minutes}}}; "
            "resume with the same, or train into a new folder"
        )
    return _with_steps(config, recorded.length)


def within_minutes(
    experiment: Experiment, process: Process, stop: StopRequest, console: Console | None
) -> tuple[Experiment, str]:
    """The experiment with as many steps as the minutes of its settings allow here, in words too."""
    training = experiment.config.training
    if training.minutes is None:
        return experiment, ""
    if console and process.leads:
        say(f"measuring how long a step takes on {process.device}")
    time = timed_steps(experiment, process, stop, TIMED_FRACTION * 60 * training.minutes)
    steps = time.steps_within(training.minutes, training)
    config = _with_steps(experiment.config, steps)
    return replace(experiment, config=config), _in_words(training.minutes, steps, time)


def _with_steps(config: Config, steps: int) -> Config:
    training = config.training.model_copy(update={"steps": steps})
    return config.model_copy(update={"training": training})


def _in_words(minutes: float, steps: int, time: StepTime) -> str:
    noun = "minute" if minutes == 1 else "minutes"
    line = f"{minutes:g} {noun} on this machine: {steps:,} steps of {short(time.seconds)} s"
    if time.early and short(time.early) != short(time.seconds):
        line += f" ({short(time.early)} s until unlabelled scans count)"
    return f"{line}, validations of {short(time.validation)} s" if time.validation else line


def train(  # noqa: PLR0913 - each is a choice of the user's, with a default
    project: Project,
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    init_from: Path | None = None,
    init_map: Path | None = None,
    pseudo_labels: Path | None = None,
    device: str = "auto",
    console: Console | None = None,
) -> FitResult:
    """Train one run into `out`, alone or as one of the processes that `torchrun` started.

    With `init_from`, its first weights are the last ones of that run, or those of a weights file,
    whose names `init_map` may translate. `pseudo_labels` is a folder of them, for a method that
    learns from those of an earlier run. With `training.minutes`, a
    new run first measures how many steps fit into them, and a resumed one takes its recorded steps.
    """
    folder = RunFolder(out)
    check_installed(config.tracking.trackers)
    with ExitStack() as stack:
        process = stack.enter_context(joined_process(device))
        stack.enter_context(locked_folder(folder, process))
        recorded = with_recorded_steps(config, folder) if resume else config
        experiment = Experiment.of(project, recorded)
        start = starting_weights(folder, init_from, experiment, resume=resume, init_map=init_map)
        given = found_pseudo_labels(experiment, folder, pseudo_labels, resume=resume)
        experiment = replace(experiment, start=start, pseudo_labels=given)
        let_train_fast(process.device)
        check_step(experiment.config, experiment.plan, experiment.crop, process.device)
        stop = stack.enter_context(stop_on_signals())
        length = ""
        if not (resume and folder.begun):
            folder.check_free(resume=resume)  # rather than after the measurement
            experiment, length = within_minutes(experiment, process, stop, console)
        method = experiment.method(process)
        if start and not (resume and folder.checkpoint("last").exists()):
            experiment = replace(experiment, start=load_start(start, method))
        acceleration = accelerate(
            method,
            experiment.config.training,
            process.device,
            experiment.crops_shape,
            recorded=folder.recorded_precision() if resume else None,
            agree=process.all_agree,
        )
        open_folder(folder, experiment, process, acceleration, resume=resume)
        trainer = Trainer(
            method,
            experiment.config,
            out,
            process,
            identity=experiment.identity(process).to_checkpoint(),
            acceleration=acceleration,
            labelled_fractions=experiment.labelled_fractions,
        )
        if resume:
            with sound_checkpoint(folder.checkpoint("last")):
                trainer.resume()
            if process.leads:
                folder.renew_facts(replace(folder.facts(), computed=acceleration))
        logger, tracking = None, UNTRACKED
        if process.leads:
            tracking = stack.enter_context(tracked(project.root, trainer))
            logger = stack.enter_context(
                opened_logger(experiment, trainer, console, length, tracking)
            )
        steps, workers = experiment.config.training.length, experiment.config.data.workers
        pinned = process.device.type == "cuda"
        result = trainer.fit(
            batches(experiment.source(process), trainer.step, steps, workers, pinned=pinned),
            logger,
            stop,
            experiment.validation(process, stop, shown_case(tracking, trainer, experiment.plan)),
            choose_ending=not experiment.chosen_by_fold,
        )
        if result.ended_with:
            folder.renew_facts(replace(folder.facts(), ended_with=result.ended_with))
        return result


@contextmanager
def locked_folder(folder: RunFolder, process: Process) -> Iterator[None]:
    """Have a run's folder, and no other training; the process that leads locks it for all."""
    if folder.root.exists() and not folder.root.is_dir():
        raise UserError(f"{folder.root} is a file; choose another --out")
    with ExitStack() as stack:
        refused: InUse | None = None
        if process.leads:
            try:
                stack.enter_context(only_writer(folder.root, "train"))
            except InUse as error:
                refused = error
        if not process.all_agree(refused is None):
            raise refused or UserError(f"{folder.root} is being written by another process")
        yield


def found_pseudo_labels(
    experiment: Experiment, folder: RunFolder, given: Path | None, *, resume: bool
) -> PseudoLabels | None:
    """The pseudo-labels that a run learns from, or learnt from if it is resumed."""
    name = experiment.config.method.name
    if not method_row(name).pseudo_labels:
        return None
    if given is None and resume and folder.begun:
        recorded = folder.facts().pseudo_labels
        given = Path(recorded.folder) if recorded else None
    if given is None:
        raise UserError(
            f"'{name}' learns from pseudo-labels of an earlier run; use `tracoco self-train "
            "PROJECT`, which trains that run, predicts them and then trains this method"
        )
    found = PseudoLabels(given)
    found.check(experiment.unlabelled)
    return found


@contextmanager
def tracked(project: Path, trainer: Trainer) -> Iterator[Tracking]:
    """The trackers of a run, which know its settings, and in the end how it ended."""
    config = trainer.config
    status: Status = "failed"
    run = TrackedRun(trainer.folder, project.resolve().name, trainer.step)
    tracking = open_trackers(run, config.tracking.trackers)
    tracking.settings(dict(by_dotted_name(config.model_dump(mode="json"))))
    try:
        yield tracking
        status = "finished" if trainer.step == config.training.length else "stopped"
    finally:
        tracking.close(status)


def shown_case(tracking: Tracking, trainer: Trainer, plan: Plan) -> Show | None:
    """What gives trackers a picture of a case that is validated; None where nobody asked for it."""
    if not trainer.config.tracking.pictures:
        return None
    axes = np.argsort(plan.stored_axes)

    def show(case: StoredCase, found: NDArray[Any]) -> None:
        truth = case.label()
        volumes = CaseVolumes(
            image=case.image()[0].transpose(axes),
            truth=np.where(is_structure(truth), truth, 0).transpose(axes),
            prediction=found.transpose(axes),
            spacing_mm=[case.spacing_mm[axis] for axis in axes],
        )
        if volumes.truth.any() or volumes.prediction.any():
            pixels = figure_pixels(case_figure(volumes))
            tracking.picture("validation/picture", pixels, trainer.step - 1)

    return show


@contextmanager
def opened_logger(
    experiment: Experiment,
    trainer: Trainer,
    console: Console | None,
    length: str,
    tracking: Tracking,
) -> Iterator[RunLogger]:
    """Log and display of a run, in which it has been said what is about to be done."""
    title, steps = experiment.config.method.name, experiment.config.training.length
    with shown_progress(title, trainer.step, steps, console) as display:
        announced = announcement(experiment, trainer.process), length, *warnings(experiment)
        for line in filter(None, (*announced, *trainer.acceleration.notes)):
            display.say(line)
        fractions, advice = experiment.labelled_fractions, trainer.method.advice
        with RunLogger(
            trainer.folder, trainer.step, fractions, display, advice=advice, tracking=tracking
        ) as logger:
            yield logger
        watched = trainer.unlabelled
        if trainer.step == steps and watched and watched.supervised_until is None:
            display.say(
                "warning: unlabelled scans never counted, so the run has learnt from labels alone; "
                "more steps or more labels may help (the report says why)"
            )


def open_folder(
    folder: RunFolder,
    experiment: Experiment,
    process: Process,
    acceleration: Acceleration,
    *,
    resume: bool,
) -> None:
    """Make the run's folder, or see that it is there to go on with; all processes agree on it."""
    resuming = resume and folder.begun
    if resuming and folder.facts().imported:
        raise UserError(
            f"{folder.root} was imported and not trained, so there is nothing to resume; train "
            f"into another --out with --init-from {folder.root}"
        )
    if not resuming:
        folder.check_free(resume=resume)
    process.wait()  # no process may make the folder before all have seen that it is new
    if process.leads and not resuming:
        facts = replace(experiment.facts(process), computed=acceleration)
        folder.create(experiment.config, experiment.plan, experiment.splits, facts)
    process.wait()
