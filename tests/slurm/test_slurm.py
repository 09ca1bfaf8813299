"""What users of SLURM type, on a real one with two nodes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from slurm_cluster import Cluster

import tracoco as tc
from tracoco.cluster.jobs import JobRow, Submission
from tracoco.project.folder import Project
from tracoco.runs.folder import load_checkpoint
from tracoco.runs.log import read_log

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.usefixtures("slurm")]

SETTINGS = ("network.filters=2", "data.crop=[16,16,8]", "data.workers=0", "training.save_every=5")
TRACOCO = (sys.executable, "-m", "tracoco")
OPTIONS: dict[str, object] = {"time": 10, "mem": "1000M"}
PATIENCE = 400.0


def words(project: Project, run: Path, steps: int) -> list[str]:
    changes = [f"training.steps={steps}", *SETTINGS]
    return [
        *("train", str(project.root), "--out", str(run), "--device", "cpu"),
        *(word for change in changes for word in ("--set", change)),
    ]


def shell(*command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
    )


def submit(command: list[str], jobs: Path, **options: object) -> tuple[str, ...]:
    """The numbers that SLURM gave the jobs."""
    tasks = int(str(options.pop("tasks", 1)))
    done = tc.submit(command, tasks=tasks, jobs=jobs, slurm=OPTIONS | options)
    assert isinstance(done, Submission)
    return tuple(job.slurm_id for job in done.jobs)


def wait_until(true: Callable[[], bool], jobs: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            logs = "\n".join(Path(row.log).read_text(errors="replace") for row in tc.jobs(jobs))
            pytest.fail(f"{[row.state for row in tc.jobs(jobs)]} at the end\n{logs[-3000:]}")
        time.sleep(0.3)


def ended(jobs: Path) -> list[JobRow]:
    """The jobs, once none of them waits or runs."""
    wait_until(
        lambda: not {"waiting", "running", "requeued"} & {row.state for row in tc.jobs(jobs)}, jobs
    )
    return tc.jobs(jobs)


def wait_for_steps(run: Path, steps: int, jobs: Path) -> None:
    log = run / "log.jsonl"
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= steps, jobs)


def assert_equal_weights(first: Path, second: Path) -> None:
    ours, theirs = (load_checkpoint(run / "last.pt")["method"] for run in (first, second))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def test_srun_trains_one_run_in_two_tasks_as_torchrun_does(
    project: Project, tmp_path: Path
) -> None:
    by_srun, by_torchrun = tmp_path / "srun", tmp_path / "torchrun"
    done = shell("srun", "-n2", "-N2", *TRACOCO, *words(project, by_srun, 6))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("trained 6 steps") == 1
    alone = ("torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "tracoco")
    done = shell(sys.executable, "-m", *alone, *words(project, by_torchrun, 6))
    assert done.returncode == 0, done.stderr[-2000:]
    assert_equal_weights(by_srun, by_torchrun)


def test_tasks_that_cannot_join_say_what_to_type(project: Project, tmp_path: Path) -> None:
    run = tmp_path / "run"
    hidden = ("env", "--unset=SLURM_PROCID", "--unset=SLURM_LOCALID")
    refused = shell("srun", "-n2", "-N2", *hidden, *TRACOCO, *words(project, run, 6))
    assert refused.returncode == 2
    assert "start it by `srun tracoco train ...`" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not run.exists()


def test_a_training_that_is_put_back_into_the_queue_resumes(
    project: Project, tmp_path: Path
) -> None:
    jobs, run = tmp_path / "jobs", tmp_path / "run"
    (number,) = submit(words(project, run, 200), jobs)
    wait_for_steps(run, 10, jobs)
    assert shell("scontrol", "requeue", number).returncode == 0
    assert [(row.state, row.starts) for row in ended(jobs)] == [("done", 2)]
    assert [record.step for record in read_log(run / "log.jsonl")] == list(range(200))


def test_a_training_that_runs_out_of_time_resumes(project: Project, tmp_path: Path) -> None:
    jobs, run = tmp_path / "jobs", tmp_path / "run"
    # SLURM warns as much as a minute earlier than it is asked to.
    (number,) = submit(words(project, run, 100_000), jobs, time=2, signal_delay_s=20)
    log = run / "log.jsonl"
    wait_until(lambda: tc.jobs(jobs)[0].starts == 2, jobs)
    wait_for_steps(run, log.read_text().count("\n") + 5, jobs)
    assert shell("scancel", number).returncode == 0
    assert [row.state for row in ended(jobs)] == ["stopped"]
    steps = [record.step for record in read_log(log)]
    assert steps == list(range(len(steps)))


def test_a_signal_saves_and_ends_a_training(project: Project, tmp_path: Path) -> None:
    jobs, run = tmp_path / "jobs", tmp_path / "run"
    (number,) = submit(words(project, run, 5000), jobs)
    wait_for_steps(run, 10, jobs)
    assert shell("scancel", "--signal=USR1", number).returncode == 0
    assert [row.state for row in ended(jobs)] == ["stopped"]
    saved = load_checkpoint(run / "last.pt")["step"]
    assert 0 < saved < 5000
    assert len(read_log(run / "log.jsonl")) == saved


def test_slurm_learns_that_a_command_failed(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (number,) = submit(["train", str(tmp_path / "none")], jobs)
    assert [row.state for row in ended(jobs)] == ["failed"]
    wait_until(lambda: "JobState=FAILED" in shell("scontrol", "show", "job", number).stdout, jobs)
    assert "ExitCode=2:0" in shell("scontrol", "show", "job", number).stdout


def test_two_nodes_whose_locks_of_files_are_local_do_not_train_the_same_run(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "sitecustomize.py").write_text("import fcntl\nfcntl.flock = lambda *_: None\n")
    paths = [str(local), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    first, second, run = tmp_path / "first", tmp_path / "second", tmp_path / "run"
    (number,) = submit(words(project, run, 50_000), first)
    wait_for_steps(run, 5, first)
    submit([*words(project, run, 50_000), "--resume"], second)
    (refused,) = ended(second)
    (writer,) = tc.jobs(first)
    assert (refused.state, writer.state) == ("failed", "running")
    assert refused.host != writer.host
    said = Path(refused.log).read_text()
    assert "is being written by" in said
    assert f"on {writer.host}" in said
    shell("scancel", number)
    assert [row.state for row in ended(first)] == ["stopped"]
    steps = [record.step for record in read_log(run / "log.jsonl")]
    assert steps == list(range(len(steps)))


GRID = """
title: Six small runs
datasets: {{small: {{labelled: [2], set: {{{settings}}}}}}}
rows: {{supervised: {{}}, cps: {{}}}}
seeds: [0, 1, 2]
"""


def test_an_array_shares_a_grid_and_the_run_of_a_node_that_fails_is_taken_over(
    tested_project: Project, tmp_path: Path, slurm: Cluster
) -> None:
    grid, jobs, project = tmp_path / "grid.yaml", tmp_path / "jobs", tested_project
    changes = ("training.steps=120", *SETTINGS)
    settings = ", ".join(change.replace("=", ": ") for change in changes)
    grid.write_text(GRID.format(settings=settings), encoding="utf-8")
    command = ["benchmark", str(grid), "--project", f"small={project.root}", "--device", "cpu"]
    submit(command, jobs, tasks=2)
    logs = project.root / "benchmark"
    wait_until(lambda: len(list(logs.glob("*/log.jsonl"))) >= 2, jobs)
    assert {row.host for row in tc.jobs(jobs)} == {"node1", "node2"}
    begun = {log.parent: log.read_text().count("\n") for log in logs.glob("*/log.jsonl")}
    slurm.switch_off("node1")
    results = tmp_path / "grid"
    wait_until(lambda: len(list(results.glob("*.json"))) == 6, jobs)
    for run in begun:
        assert [record.step for record in read_log(run / "log.jsonl")] == list(range(120))
    slurm.switch_on("node1")
    assert [row.state for row in ended(jobs)] == ["done", "done"]
