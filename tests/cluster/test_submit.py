import os
import signal
import time
from pathlib import Path

import pytest

import tracoco as tc
from tracoco.cluster.jobs import (
    JobRecord,
    JobState,
    Submission,
    ended_state,
    list_jobs,
    read_submission,
    write_state,
)
from tracoco.cluster.submit import Request, batch_file, minutes_of, parse_options
from tracoco.cluster.task import CommandTask
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.studies.benchmark.worker_processes import visible_gpus, worker_environment


def commands(*words: str, tasks: int = 1, seeds: tuple[int, ...] = ()) -> list[str]:
    request = Request(words, Path("jobs"), tasks, seeds)
    return [" ".join(command) for command in request.commands()]


def test_each_kind_of_command_is_divided_in_its_way() -> None:
    assert commands("train", "heart", seeds=(3, 5)) == [
        "train heart --seed 3",
        "train heart --seed 5",
    ]
    assert commands("predict", "run", "in", "out", tasks=2) == [
        "predict run in out --shard 1/2",
        "predict run in out --shard 2/2",
    ]
    assert commands("benchmark", "grid.yaml", tasks=2) == ["benchmark grid.yaml"] * 2
    assert commands("train", "heart") == ["train heart"]


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (("trian", "heart"), {}, "did you mean 'train'"),
        (("train", "heart"), {"tasks": 2}, "give --seeds or --folds for several trainings"),
        (("predict", "run"), {"seeds": (0,)}, "--seeds is for `train`"),
        (("train", "heart", "--out", "a"), {"seeds": (0, 1)}, "leave out --out"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    words: tuple[str, ...], options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        commands(*words, **options)  # type: ignore[arg-type]  # one of two options


def test_options_of_sbatch() -> None:
    assert parse_options(["partition=gpu,gres=gpu:1,time=24:00:00", "--exclude=node1,node2"]) == {
        "partition": "gpu",
        "gres": "gpu:1",
        "time": "24:00:00",
        "exclude": "node1,node2",
    }
    with pytest.raises(UserError, match="is not KEY=VALUE"):
        parse_options(["gpu"])


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:00", 90), ("1:30", 2), ("24:00:00", 1440), ("2-12", 3600), ("1-0:30", 1470)],
)
def test_times_are_read_as_slurm_reads_them(text: str, minutes: int) -> None:
    assert minutes_of(text) == minutes
    with pytest.raises(UserError, match="is no time"):
        minutes_of(f"{text}h")


def test_the_batch_file_has_the_users_options_and_requeues() -> None:
    request = Request(("train", "heart"), Path("jobs"), seeds=(0, 1))
    text = batch_file(request, parse_options(["partition=gpu,gres=gpu:1,time=60,reservation=x"]))
    for line in ("partition=gpu", "gres=gpu:1", "time=60", "reservation=x", "array=0-1%2"):
        assert f"#SBATCH --{line}\n" in text
    assert "#SBATCH --requeue\n" in text
    assert "#SBATCH --signal=USR2@90\n" in text
    assert "# job 1: tracoco train heart --seed 1" in text


def test_a_training_that_starts_again_resumes(tmp_path: Path) -> None:
    task = CommandTask(tmp_path, 0, ("train", "heart"))
    assert task.words_to_run(restarted=False) == ["train", "heart"]
    assert task.words_to_run(restarted=True) == ["train", "heart", "--resume"]
    asked = CommandTask(tmp_path, 0, ("train", "heart", "--resume"))
    assert asked.words_to_run(restarted=True) == ["train", "heart", "--resume"]
    predicting = CommandTask(tmp_path, 0, ("predict", "run", "in", "out"))
    assert predicting.words_to_run(restarted=True) == ["predict", "run", "in", "out"]


def test_a_job_tells_how_its_command_ended(tmp_path: Path) -> None:
    CommandTask(tmp_path, 0, ("methods",))()
    with pytest.raises(SystemExit, match="2"):
        CommandTask(tmp_path, 1, ("train", str(tmp_path / "none")))()
    jobs = tuple(JobRecord(("x",), "log") for _ in range(2))
    Submission(tmp_path / "a", jobs, 0.0, "local", "elsewhere", 1).write()
    for number in range(2):
        (tmp_path / f"job{number}.json").rename(tmp_path / "a" / f"job{number}.json")
    assert [row.state for row in list_jobs(tmp_path)] == ["done", "failed"]


def test_exit_codes() -> None:
    assert [ended_state(code) for code in (0, 2, 143, -9, 128 + signal.SIGUSR2)] == [
        "done",
        "failed",
        "stopped",
        "stopped",
        "requeued",
    ]


def test_a_job_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    host = os.uname().nodename
    folder = tmp_path / "a"
    Submission(folder, (JobRecord(("x",), "log"),) * 3, 0.0, "local", host, 2**22 + 1).write()
    write_state(folder, 0, JobState("running", host, os.getpid(), time.time()))
    write_state(folder, 1, JobState("running", host, 2**22 + 1, time.time()))
    assert [row.state for row in list_jobs(tmp_path)] == ["running", "lost", "lost"]


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    record = tmp_path / "a" / "submission.json"
    record.write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="is not the record of a submission"):
        read_submission(tmp_path / "a")
    with pytest.raises(UserError, match="does not exist"):
        tc.jobs(tmp_path / "none")


def test_each_worker_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    monkeypatch.setenv("WORLD_SIZE", "4")
    gpus = visible_gpus()
    given = [worker_environment(slot, 3, gpus) for slot in range(3)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in given] == ["2", "5", "2"]
    assert {each["WORLD_SIZE"] for each in given} == {"1"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []


def test_a_queue_on_this_machine_runs_all_jobs(project: Project, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    submitted = tc.submit(["prepare", str(project.root)], local=1, jobs=jobs)
    assert isinstance(submitted, Submission)
    tc.submit(["train", str(tmp_path / "none")], local=2, seeds=[0, 1], jobs=jobs)
    for _ in range(960):
        rows = tc.jobs(jobs)
        if all(row.state not in ("waiting", "running") for row in rows):
            break
        time.sleep(0.25)
    assert [row.state for row in rows] == ["done", "failed", "failed"]
    assert "none is not a project folder" in Path(rows[1].log).read_text(encoding="utf-8")
    with pytest.raises(UserError, match="do not go together"):
        tc.submit(["train", "heart"], local=1, slurm={"partition": "gpu"})
