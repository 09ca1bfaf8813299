"""The length of a run that is given in minutes: steps are measured once, then recorded."""

from dataclasses import replace

from rich.console import Console

from tracoco.config import Config
from tracoco.console import say
from tracoco.errors import UserError
from tracoco.experiment.experiment import Experiment
from tracoco.experiment.step_time import StepTime, timed_steps
from tracoco.report.wording import short
from tracoco.training.run_folder import RunFolder
from tracoco.training.signals import StopRequest
from tracoco.training.team import Team

SHARE = 0.05
"""Of the minutes: so long at most are steps timed, and as long cases scored."""


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
    experiment: Experiment, team: Team, stop: StopRequest, console: Console | None
) -> tuple[Experiment, str]:
    """The experiment with as many steps as the minutes of its settings allow here, in words too."""
    training = experiment.config.training
    if training.minutes is None:
        return experiment, ""
    if console and team.leads:
        say(f"measuring how long a step takes on {team.device}")
    time = timed_steps(experiment, team, stop, SHARE * 60 * training.minutes)
    steps = time.steps_within(training.minutes, training)
    config = _with_steps(experiment.config, steps)
    return replace(experiment, config=config), _in_words(training.minutes, steps, time)


def _with_steps(config: Config, steps: int) -> Config:
    training = config.training.model_copy(update={"steps": steps})
    return config.model_copy(update={"training": training})


def _in_words(minutes: float, steps: int, time: StepTime) -> str:
    noun = "minute" if minutes == 1 else "minutes"
    line = f"{minutes:g} {noun} on this machine: {steps:,} steps of {short(time.seconds)} s"
    return f"{line}, validations of {short(time.validation)} s" if time.validation else line
