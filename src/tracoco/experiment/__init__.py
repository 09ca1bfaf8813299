"""Everything put together: from a project and settings to a trained run."""

from tracoco.experiment.experiment import Experiment
from tracoco.experiment.train import open_folder, train

__all__ = ["Experiment", "open_folder", "train"]
