"""One training, from the first step or from where it was stopped."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from tracoco.config import Config
from tracoco.data.read_ahead import batches
from tracoco.errors import UserError
from tracoco.experiment.experiment import Experiment
from tracoco.experiment.length import with_recorded_steps, within_minutes
from tracoco.experiment.starting_weights import starting_weights
from tracoco.project.folder import Project
from tracoco.training.arrangement import Arrangement, arrange
from tracoco.training.journal import Journal
from tracoco.training.progress import shown_progress
from tracoco.training.run_folder import RunFolder
from tracoco.training.signals import stop_on_signals
from tracoco.training.team import Team, joined_team, let_train_fast
from tracoco.training.trainer import FitResult, Trainer


def train(  # noqa: PLR0913 - each is a choice of the user's, with a default
    project: Project,
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    init_from: Path | None = None,
    device: str = "auto",
    console: Console | None = None,
) -> FitResult:
    """Train one run into `out`, alone or as one of the processes that `torchrun` started.

    With `init_from`, its first weights are the last ones of that run. With `training.minutes`, a
    new run first measures how many steps fit into them, and a resumed one takes its recorded steps.
    """
    folder = RunFolder(out)
    experiment = Experiment.of(project, with_recorded_steps(config, folder) if resume else config)
    start = starting_weights(folder, init_from, experiment, resume=resume)
    experiment = replace(experiment, start=start)
    with ExitStack() as stack:
        team = stack.enter_context(joined_team(device))
        let_train_fast(team.device)
        stop = stack.enter_context(stop_on_signals())
        length = ""
        if not (resume and folder.begun):
            folder.check_free(resume=resume)  # rather than after the measurement
            experiment, length = within_minutes(experiment, team, stop, console)
        method = experiment.method(team)
        if start and not (resume and folder.checkpoint("last").exists()):
            start.load(method)
        arrangement = arrange(
            method,
            experiment.config.training,
            team.device,
            experiment.crops_shape,
            recorded=folder.recorded_precision() if resume else None,
            agree=team.all_agree,
        )
        open_folder(folder, experiment, team, arrangement, resume=resume)
        trainer = Trainer(
            method,
            experiment.config,
            out,
            team,
            identity=experiment.identity(team),
            arrangement=arrangement,
            labelled_shares=list(experiment.labelled_shares.values()),
        )
        if resume:
            trainer.resume()
            if team.leads:
                folder.renew_facts({"computed": asdict(arrangement)})
        journal = None
        if team.leads:
            journal = stack.enter_context(opened_journal(experiment, trainer, console, length))
        steps, workers = experiment.config.training.length, experiment.config.data.workers
        pinned = team.device.type == "cuda"
        result = trainer.fit(
            batches(experiment.source(team), trainer.step, steps, workers, pinned=pinned),
            journal,
            stop,
            experiment.validation(team),
        )
        if result.ended_with:
            folder.renew_facts({"ended_with": asdict(result.ended_with)})
        return result


@contextmanager
def opened_journal(
    experiment: Experiment, trainer: Trainer, console: Console | None, length: str
) -> Iterator[Journal]:
    """Log and display of a run, in which it has been said what is about to be done."""
    title, steps = experiment.config.method.name, experiment.config.training.length
    with shown_progress(title, trainer.step, steps, console) as display:
        announced = experiment.announcement(trainer.team), length, *experiment.warnings()
        for line in filter(None, (*announced, *trainer.arrangement.notes)):
            display.say(line)
        shares, remedy = experiment.labelled_shares, trainer.method.remedy
        with Journal(trainer.folder, trainer.step, shares, display, remedy=remedy) as journal:
            yield journal


def open_folder(
    folder: RunFolder,
    experiment: Experiment,
    team: Team,
    arrangement: Arrangement,
    *,
    resume: bool,
) -> None:
    """Make the run's folder, or see that it is there to go on with; all processes agree on it."""
    resuming = resume and folder.begun
    if resuming and folder.facts().get("imported"):
        raise UserError(
            f"{folder.root} was imported and not trained, so there is nothing to resume; train "
            f"into another --out with --init-from {folder.root}"
        )
    if not resuming:
        folder.check_free(resume=resume)
    team.wait()  # no process may make the folder before all have seen that it is new
    if team.leads and not resuming:
        facts = experiment.facts(team) | {"computed": asdict(arrangement)}
        folder.create(experiment.config, experiment.plan, experiment.splits, facts)
    team.wait()
