import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log

PROGRAM = Path(__file__).with_name("two_ranks.py")
KINDS = ("tracoco", "ua-mt", "bcp", "unimatch", "dhc", "sassnet")
"""Two networks, a teacher, stages, thresholds, class weights, an optimizer of the method's own."""


def torchrun(*arguments: str) -> str:
    """Run something in two processes and give what it printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.parametrize(
    "names", [KINDS, pytest.param((), marks=pytest.mark.slow)], ids=["kinds", "all methods"]
)
def test_two_processes_hold_the_same_method_after_every_step_and_stop_together(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    torchrun(str(PROGRAM), str(tmp_path), *names)
    assert {path.name for path in tmp_path.glob("rank*")} == {"rank0", "rank1"}


def test_the_command_means_the_same_under_torchrun(project: Project, tmp_path: Path) -> None:
    settings = ["training.steps=3", "network.filters=4", "data.crop=[16, 16, 8]", "data.workers=0"]
    arguments = [part for setting in settings for part in ("--set", setting)]
    run = tmp_path / "run"
    base = ("-m", "tracoco", "train", str(project.root), "-o", str(run), "--device", "cpu")
    out = torchrun(*base, *arguments)
    assert out.count("trained 3 steps") == 1
    assert [record.step for record in read_log(run / "log.jsonl")] == [0, 1, 2]
    assert RunFolder(run).facts().global_batch == 8
    assert (run / "best.pt").exists()


@pytest.mark.slow
def test_two_processes_agree_on_the_steps_that_minutes_are(
    project: Project, tmp_path: Path
) -> None:
    torchrun(str(PROGRAM.with_name("two_ranks_minutes.py")), str(project.root), str(tmp_path))
    training = RunFolder(tmp_path / "run").config().training
    assert (training.steps, training.minutes) == (69, 0.6)
    assert len(read_log(tmp_path / "run" / "log.jsonl")) == 69
