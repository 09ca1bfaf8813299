"""Two commands that write into one folder at once: one does its work, the other is told."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import make_project, write_balls
from started_runs import SHORT
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.files import content_hash, read_json
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder, load_checkpoint
from tracoco.runs.log import read_log
from tracoco.training import trainer as trainer_module
from tracoco.training.train import train

ROUNDS = 5


def at_once(*works: Callable[[], object]) -> list[str]:
    """What each says that is refused; empty for what succeeds."""
    together, said = threading.Barrier(len(works)), [""] * len(works)

    def run(number: int) -> None:
        together.wait()
        try:
            works[number]()
        except UserError as error:
            said[number] = str(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def refused(said: list[str]) -> bool:
    """Whether exactly one was refused, because of the other or of what the other has made."""
    return sorted(map(bool, said)) == [False, True] and any(
        text in "".join(said)
        for text in ("is being written by", "already exists", "exists already")
    )


def test_two_init_into_one_new_folder(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=1)
    for number in range(ROUNDS):
        out = tmp_path / f"project{number}"
        said = at_once(*(
            lambda seed=seed, out=out: init_project(data, out, validation=1, seed=seed)
            for seed in (0, 1)
        ))  # fmt: skip
        assert refused(said), said
        seed = said.index("")
        alone = init_project(data, tmp_path / f"alone{number}", validation=1, seed=seed)
        project = Project(out)
        assert project.load_splits() == alone.load_splits()
        assert {file.name for file in out.iterdir()} == {file.name for file in project.files}


def test_two_train_into_one_new_folder(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = at_once(*(
        lambda seed=seed: train(
            project,
            load_config(None, [*SHORT, "training.steps=2", f"seed={seed}"]),
            out,
            device="cpu",
        )
        for seed in (0, 1)
    ))  # fmt: skip
    assert refused(said), said
    assert RunFolder(out).config().seed == said.index("")
    assert [record.step for record in read_log(out / "log.jsonl")] == [0, 1]


def test_two_resume_one_run(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "run"
    short = load_config(None, [*SHORT, "training.steps=3"])

    def resume() -> None:
        train(project, short, out, resume=True, device="cpu")

    said = at_once(resume, resume)
    assert refused(said), said
    assert [record.step for record in read_log(out / "log.jsonl")] == [0, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_saves_a_training_and_is_its_exit_code(
    number: int, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, take_step = tmp_path / "run", trainer_module.Trainer._take_step

    def signalled(*words: object) -> object:
        os.kill(os.getpid(), number)
        return take_step(*words)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(trainer_module.Trainer, "_take_step", signalled)
    settings = [word for each in SHORT for word in ("--set", each)]
    words = ["train", str(project.root), "-o", str(out), *settings, "--set", "training.steps=9"]
    result = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert result.exit_code == 128 + number, result.output
    assert load_checkpoint(out / "last.pt")["step"] == 1


COMMAND = [sys.executable, "-m", "tracoco"]


def both(words: list[str], others: list[str]) -> list[tuple[int, str]]:
    """Exit code and errors of two commands that are started together."""
    started = [
        subprocess.Popen([*COMMAND, *each], stderr=subprocess.PIPE, text=True)
        for each in (words, others)
    ]
    return [(each.wait(300), each.communicate()[1]) for each in started]


@pytest.mark.slow
def test_two_processes_of_every_command_at_once(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=2)
    project = make_project(tmp_path / "made", test=2)
    settings = [word for each in SHORT for word in ("--set", each)]
    for number in range(ROUNDS):
        out = str(tmp_path / f"project{number}")
        first = ["init", str(data), "-o", out, "--seed"]
        check(both([*first, "0"], [*first, "1"]), Path(out))
        run = tmp_path / f"run{number}"
        first = ["train", str(project.root), "-o", str(run), "--device", "cpu", *settings]
        first += ["--set", "training.steps=30"]
        check(both([*first, "--set", "seed=0"], [*first, "--set", "seed=1"]), run)
        seed = str(RunFolder(run).config().seed)
        again = [*first, "--set", f"seed={seed}", "--resume"]
        (run / "last.pt").unlink()
        check(both(again, again), run)
        other = tmp_path / f"other{number}"
        shutil.copytree(run, other)
        labels = tmp_path / f"labels{number}"
        scans = str(data / "images")
        runs = [str(run), str(other)]
        words = [["predict", each, scans, str(labels), "--device", "cpu"] for each in runs]
        check(both(*words), labels)
        note = read_json(labels / "predictions.json")
        for row in note["rows"]:
            assert row["digests"] == {
                Path(row["prediction"]).name: content_hash(Path(row["prediction"]))
            }


def check(ended: list[tuple[int, str]], folder: Path) -> None:
    """One ended well, and the other said in one line that the folder is not free."""
    codes = sorted(code for code, _ in ended)
    assert codes == [0, 2], ended
    (said,) = (text for code, text in ended if code == 2)
    assert str(folder) in said
    assert "Traceback" not in said
