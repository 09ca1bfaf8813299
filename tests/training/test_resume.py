"""Killed at a random moment and resumed, a run is the run that was never killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tracoco.project.folder import Project
from tracoco.testing.steps import differing

STEPS = 14


def command(project: Project, out: Path, workers: int, *more: str) -> list[str]:
    settings = [
        f"training.steps={STEPS}",
        "training.unlabelled_weight=scheduled",  # all loss terms count from the first step
        "training.save_every=3",
        "training.validate_every=4",
        f"data.workers={workers}",
        "data.crop=[16, 16, 8]",
        "network.filters=4",
        "training.precision=fp32",  # else two runs might decide otherwise
    ]
    arguments = [part for setting in settings for part in ("--set", setting)]
    base = [sys.executable, "-m", "tracoco", "train", str(project.root), "--out", str(out)]
    return [*base, "--device", "cpu", *arguments, *more]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def steps_logged(out: Path) -> list[int]:
    log = out / "log.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [json.loads(line)["step"] for line in lines if line.endswith("}")]


def start_and_signal(arguments: list[str], out: Path, number: int, after: int) -> int:
    """Start a run, signal it and its workers once it has logged `after` steps, wait for its end.

    A terminal's Ctrl-C and a scheduler's stop also reach the whole group of processes.
    """
    process = subprocess.Popen(
        arguments, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while len(steps_logged(out)) < after and process.poll() is None:
        assert time.monotonic() < deadline, "the run does not get going"
        time.sleep(0.005)
    os.killpg(process.pid, number)
    return process.wait(timeout=60)


def method_state(out: Path) -> dict[str, Any]:
    checkpoint = torch.load(out / "last.pt", weights_only=True)
    assert checkpoint["step"] == STEPS
    state: dict[str, Any] = checkpoint["method"]
    return state


def assert_same_run(resumed: Path, whole: Path) -> None:
    assert steps_logged(resumed) == list(range(STEPS))
    assert differing(method_state(whole), method_state(resumed)) == []


@pytest.fixture(scope="module")
def whole(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(command(project, out, 0))
    return out


def kill_and_resume(arguments: list[str], out: Path) -> None:
    after = random.randint(1, STEPS - 1)  # noqa: S311 - any step will do
    assert start_and_signal(arguments, out, signal.SIGKILL, after) == -signal.SIGKILL
    finish([*arguments, "--resume"])


def finish(arguments: list[str]) -> None:
    subprocess.run(arguments, env=environment(), check=True, capture_output=True)


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_killed_at_a_random_step_and_resumed_the_weights_are_bitwise_equal(
    project: Project, whole: Path, tmp_path: Path, workers: int
) -> None:
    out = tmp_path / "run"
    kill_and_resume(command(project, out, workers), out)
    assert_same_run(out, whole)


@pytest.mark.slow
def test_killed_and_resumed_an_inner_optimizer_goes_on_as_well(
    project: Project, tmp_path: Path
) -> None:
    chosen = ("--set", "method.name=sassnet", "--set", "method.discriminator_filters=4")
    whole, out = tmp_path / "whole", tmp_path / "run"
    finish(command(project, whole, 0, *chosen))
    kill_and_resume(command(project, out, 0, *chosen), out)
    assert_same_run(out, whole)
    assert method_state(out)["discriminator._extra_state"]["state"]


@pytest.mark.parametrize(
    ("number", "workers"),
    [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 2, marks=pytest.mark.slow)],
)
def test_asked_to_stop_it_finishes_the_step_saves_and_says_so(
    project: Project, whole: Path, tmp_path: Path, number: int, workers: int
) -> None:
    out = tmp_path / "run"
    assert start_and_signal(command(project, out, workers), out, number, after=2) == 128 + number
    done = torch.load(out / "last.pt", weights_only=True)["step"]
    assert steps_logged(out) == list(range(done))
    assert 2 <= done < STEPS
    finish(command(project, out, 0, "--resume"))
    assert_same_run(out, whole)
