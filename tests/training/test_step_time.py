"""How long a step takes, by a clock of our own, and how many steps that makes."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from samples import make_batch

from tracoco.config import TrainingConfig
from tracoco.errors import Stopped
from tracoco.presets import load_config
from tracoco.processes import StopRequest
from tracoco.project.folder import Project
from tracoco.training import step_time
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.pseudo_label_monitor import EARLIEST, UnlabelledWeight
from tracoco.training.step_time import FEWEST, StepTime, timed_steps

SMALL = ["network.filters=4", "data.workers=1", "data.crop=[16, 16, 16]"]
ALONE = Process(0, 1, torch.device("cpu"))


@dataclass(frozen=True)
class Timed(Process):
    """A process whose steps take what a test says, one after the other."""

    steps: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)

    def clock(self) -> float:
        self.asked.append(sum(self.steps[: len(self.asked)]))
        return self.asked[-1]


def taken(steps: list[float], limit: float) -> tuple[int, float]:
    """Steps that were taken to measure one, and what came of it."""
    process, times = Timed(0, 1, torch.device("cpu"), steps), list[float]()
    batches = [make_batch(2)] * (len(steps) + 1)
    handed = list(step_time._until_timed(batches, times, process, limit))
    return len(handed), step_time._mean_seconds(times)


@pytest.mark.parametrize(
    ("steps", "limit", "expected"),
    [
        ([10.0] * 3 + [2.0] * 9, 1000.0, (3 + 5, 2.0)),  # five steps, though they take 10 seconds
        ([10.0] * 3 + [0.5] * 20, 1000.0, (3 + 10, 0.5)),  # five seconds, though they are 10 steps
        ([1.0] * 3 + [1.0, 2.0] * 5, 6.5, (3 + 3, 4 / 3)),  # 7 seconds in all
        ([10.0, 8.0, 6.0, 4.0], 25.0, (4, 4.0)),  # 28 seconds: one step counts
        ([10.0, 8.0, 6.0, 4.0], 20.0, (3, 6.0)),  # no time for the warm-up: the last one counts
        ([10.0, 8.0, 6.0, 4.0], 0.1, (2, 8.0)),
    ],
)
def test_first_steps_do_not_count_and_a_limit_ends_it(
    steps: list[float], limit: float, expected: tuple[int, float]
) -> None:
    count, seconds = taken(steps, limit)
    assert count == expected[0]
    assert seconds == pytest.approx(expected[1])


def test_steps_of_a_run_within_minutes() -> None:
    assert StepTime(1.5).steps_within(30, TrainingConfig()) == 1200
    # Of 37 steps two validations and three checkpoints, their `best` included: 37 + 20 + 3 = 60.
    time = StepTime(1.0, validation=10.0, saving=1.0)
    training = TrainingConfig(validate_every=20, save_every=50)
    assert [time.run_seconds(steps, training) for steps in (20, 21, 37, 38)] == [32, 44, 60, 61]
    assert time.steps_within(1, training) == 37
    assert StepTime(1.0, saving=5.0).steps_within(1, training) == 50  # 50 + 5; the 51st saves again
    assert StepTime(1.0).steps_within(0.01, training) == FEWEST
    assert StepTime(200.0).steps_within(1, training) == FEWEST


def test_steps_before_unlabelled_crops_count_take_less() -> None:
    time, training = StepTime(2.0, early=0.5), TrainingConfig()
    assert EARLIEST == 200
    assert time.run_seconds(120, training) == 60
    assert time.steps_within(1, training) == 120
    assert time.steps_within(5, training) == 200 + 100  # 100 seconds, and 200 for the others
    assert StepTime(2.0).steps_within(1, training) == 30


def test_unlabelled_crops_never_count_before_the_earliest_step() -> None:
    weight = UnlabelledWeight([0.9, 0.1])
    for step in range(EARLIEST + 10):
        if weight.due(step):
            weight.decide(step, [90.0, 200.0], [])
        assert (weight.began is not None) == (step + 1 >= EARLIEST)


@pytest.mark.parametrize(
    "settings", [["method.name=supervised"], ["training.unlabelled_weight=scheduled"]]
)
def test_without_the_adaptive_weight_all_steps_are_alike(
    project: Project, settings: list[str]
) -> None:
    experiment = Experiment.of(project, load_config(None, [*SMALL, *settings]))
    assert timed_steps(experiment, ALONE, StopRequest(), 0.1).early == 0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_real_step_is_measured_and_leaves_nothing(project: Project, temporary: Path) -> None:
    before = torch.random.get_rng_state()
    names = sorted(path.name for path in project.root.rglob("*"))
    experiment = Experiment.of(project, load_config(None, SMALL))
    time = timed_steps(experiment, ALONE, StopRequest(), 0.1)
    assert min(time.seconds, time.validation, time.saving) > 0
    assert 0 < time.early <= time.seconds
    assert torch.equal(torch.random.get_rng_state(), before)
    assert list(temporary.glob("tracoco-*")) == []
    assert sorted(path.name for path in project.root.rglob("*")) == names


def test_asked_to_stop_it_stops(project: Project, temporary: Path) -> None:
    experiment = Experiment.of(project, load_config(None, SMALL))
    with pytest.raises(Stopped, match="before the first step") as caught:
        timed_steps(experiment, ALONE, StopRequest(signal=15), 0.1)
    assert caught.value.signal == 15
    assert list(temporary.glob("tracoco-*")) == []


def test_time_of_cases_that_are_not_scored_is_scaled_by_their_voxels(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment.of(project, load_config(None, SMALL))
    (case,) = experiment.choosing_cases
    monkeypatch.setattr(Experiment, "choosing_cases", [case] * 4)
    scored: list[object] = []
    monkeypatch.setattr(step_time, "mean_dice", lambda _, cases, *__: scored.extend(cases))
    process = Timed(0, 1, torch.device("cpu"), [3.0] * 9)
    trainer = step_time._copy(experiment, process, Path())
    assert step_time._validation_seconds(experiment, trainer, limit=5.0) == 12.0
    assert len(scored) == 2
