"""Run by `torchrun` with two processes of unequal speed: they agree on the length of a run."""

import sys
from pathlib import Path

import pytest

from tracoco.presets import load_config
from tracoco.processes import StopRequest
from tracoco.project.folder import Project
from tracoco.training import step_time
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.step_time import StepTime
from tracoco.training.train import train

SETTINGS = ["network.filters=4", "data.workers=0", "data.crop=[16, 16, 8]", "training.minutes=0.6"]
MEASURED = step_time._own_times


def told_times(
    experiment: Experiment, process: Process, stop: StopRequest, limit: float, folder: Path
) -> StepTime:
    """Measure, and tell other times than those: the second process is slower."""
    MEASURED(experiment, process, stop, min(limit, 0.1), folder)
    return StepTime(3.0) if process.rank == 1 else StepTime(1.0, 0.75, 0.25, 0.5)


if __name__ == "__main__":
    project, out = Project(Path(sys.argv[1])), Path(sys.argv[2])
    config = load_config(None, SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_time, "_own_times", told_times)
        # Both take the slower step of the second process, and the first one's other times: 69
        # steps of half a second each, one validation and two checkpoints are 35.75 s, of 36.
        assert train(project, config, out / "run", device="cpu").steps == 69
