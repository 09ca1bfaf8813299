"""Everything put together: from a project and settings to a trained run."""

from tracoco.experiment.experiment import Experiment
from tracoco.experiment.step_time import StepTime, measured_step
from tracoco.experiment.train import open_folder, train

__all__ = ["Experiment", "StepTime", "measured_step", "open_folder", "train"]
