"""A run whose length is a time is the run of as many steps, and stays it when it is resumed."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.config import Config, recorded_settings
from tracoco.console import progress_console
from tracoco.errors import UserError
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.testing.steps import differing
from tracoco.training import train as length
from tracoco.training.step_time import StepTime
from tracoco.training.train import train
from tracoco.training.trainer import Trainer

SMALL = ["network.filters=4", "data.workers=0", "data.crop=[16, 16, 8]", "training.save_every=4"]
MINUTES = [*SMALL, "training.minutes=0.1"]


def forbidden(*_: object) -> StepTime:
    raise AssertionError("nothing was to be measured")


@pytest.fixture
def half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes half a second: 12 of them are 0.1 minutes."""
    monkeypatch.setattr(length, "timed_steps", lambda *_: StepTime(0.5))


def steps_of(out: Path) -> tuple[int, float | None]:
    training = RunFolder(out).config().training
    return training.length, training.minutes


def assert_same_weights(first: Path, second: Path) -> None:
    states = [torch.load(out / "last.pt", weights_only=True) for out in (first, second)]
    assert states[0]["step"] == states[1]["step"]
    assert differing(states[0]["method"], states[1]["method"]) == []
    assert differing(states[0]["optimizer"], states[1]["optimizer"]) == []


def test_measured_for_real_it_is_the_run_of_as_many_steps(project: Project, tmp_path: Path) -> None:
    out, plain = tmp_path / "run", tmp_path / "plain"
    result = train(project, load_config(None, [*SMALL, "training.minutes=0.05"]), out, device="cpu")
    steps, minutes = steps_of(out)
    assert (result.steps, minutes) == (steps, 0.05)
    assert len(read_log(out / "log.jsonl")) == steps >= 10
    train(project, load_config(None, [*SMALL, f"training.steps={steps}"]), plain, device="cpu")
    assert_same_weights(out, plain)


@pytest.mark.usefixtures("half_a_second")
def test_stopped_and_resumed_it_takes_the_recorded_steps(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, plain, save = tmp_path / "run", tmp_path / "plain", Trainer.save

    def killed(trainer: Trainer, name: str) -> None:
        save(trainer, name)
        if trainer.step == 8:
            raise KeyboardInterrupt

    config = load_config(None, MINUTES)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            train(project, config, out, device="cpu", resume=True)  # there is nothing yet
    assert steps_of(out) == (12, 0.1)
    monkeypatch.setattr(length, "timed_steps", forbidden)
    assert train(project, config, out, device="cpu", resume=True).steps == 12
    train(project, load_config(None, [*SMALL, "training.steps=12"]), plain, device="cpu")
    assert_same_weights(out, plain)


@pytest.mark.usefixtures("half_a_second")
def test_it_goes_on_with_the_same_minutes_alone(project: Project, tmp_path: Path) -> None:
    out, other = tmp_path / "run", [*SMALL, "training.minutes=0.2"]
    train(project, load_config(None, MINUTES), out, device="cpu")
    for checkpoint in (True, False):  # a run that was killed before its first one has none
        if not checkpoint:
            (out / "last.pt").unlink()
        with pytest.raises(UserError, match=r"other training settings: \{'minutes': 0\.1\}, now"):
            train(project, load_config(None, other), out, device="cpu", resume=True)
    with pytest.raises(UserError, match="already exists"):
        train(project, load_config(None, MINUTES), out, device="cpu")


def test_a_run_of_steps_is_not_resumed_by_minutes_nor_the_other_way_round(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, steps = tmp_path / "run", load_config(None, [*SMALL, "training.steps=12"])
    train(project, steps, out, device="cpu")
    with pytest.raises(UserError, match=r"settings: \{'minutes': None\}, now \{'minutes': 0\.1\}"):
        train(project, load_config(None, MINUTES), out, device="cpu", resume=True)
    monkeypatch.setattr(length, "timed_steps", lambda *_: StepTime(0.5))
    train(project, load_config(None, MINUTES), tmp_path / "timed", device="cpu")
    with pytest.raises(UserError, match=r"other training settings: \{'minutes': 0\.1\}, now"):
        train(project, steps, tmp_path / "timed", device="cpu", resume=True)


def test_a_folder_in_use_is_refused_before_anything_is_measured(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thesis.txt").touch()
    monkeypatch.setattr(length, "timed_steps", forbidden)
    with pytest.raises(UserError, match="already exists"):
        train(project, load_config(None, MINUTES), tmp_path, device="cpu")


def test_the_run_says_how_many_steps_the_minutes_are(
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(length, "timed_steps", lambda *_: StepTime(0.45, 0.6))
    console = progress_console()
    train(project, load_config(None, MINUTES), tmp_path / "run", device="cpu", console=console)
    said = capsys.readouterr().err
    assert "measuring how long a step takes on cpu" in said
    # 12 steps and one validation: 5.4 + 0.6 = 6 s.
    assert "0.1 minutes on this machine: 12 steps of 0.45 s, validations of 0.6 s" in said
    assert length._in_words(1, 1240, StepTime(1.4512)).startswith("1 minute on")
    assert length._in_words(30, 1240, StepTime(1.4512)) == (
        "30 minutes on this machine: 1,240 steps of 1.45 s"
    )
    assert length._in_words(1, 240, StepTime(1.4, early=0.3)) == (
        "1 minute on this machine: 240 steps of 1.4 s (0.3 s until unlabelled scans count)"
    )


def test_without_minutes_a_run_is_recorded_as_before() -> None:
    assert "minutes" not in recorded_settings(Config())["training"]
    assert recorded_settings(load_config(None, MINUTES))["training"]["minutes"] == 0.1


@pytest.mark.parametrize("minutes", ["0", "-1", ".inf", ".nan"])
def test_minutes_are_a_positive_number(minutes: str) -> None:
    with pytest.raises(UserError, match=r"training\.minutes"):
        load_config(None, [f"training.minutes={minutes}"])


@pytest.mark.usefixtures("half_a_second")
def test_the_command_takes_minutes(project: Project, tmp_path: Path) -> None:
    words = ["train", str(project.root), "--out", str(tmp_path / "run"), "--device", "cpu"]
    words += [part for setting in SMALL for part in ("--set", setting)]
    # The steps of a preset give way; those of the same command do not.
    words += ["--preset", "demo", "--minutes", "0.1"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "trained 12 steps" in result.stdout
    assert steps_of(tmp_path / "run") == (12, 0.1)
    result = CliRunner().invoke(app, [*words, "--resume"], catch_exceptions=False)
    assert "trained 12 steps" in result.stdout
    result = CliRunner().invoke(app, [*words, "--set", "training.steps=9"])
    assert isinstance(result.exception, UserError)
    assert "0.1 minutes and training.steps=9 both say" in str(result.exception)


def test_the_help_has_it() -> None:
    text = CliRunner().invoke(app, ["train", "--help"]).output
    assert "--minutes" in text
    assert "instead of a number of steps" in " ".join(text.split())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([], True),
        (["training.unlabelled_weight=scheduled"], False),
        (["method.name=supervised"], False),
    ],
)
def test_a_run_too_short_for_unlabelled_scans_says_so(
    project: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    settings: list[str],
    *,
    told: bool,
) -> None:
    config = load_config(None, ["network.filters=4", "training.steps=3", *settings])
    train(project, config, tmp_path / "run", device="cpu", console=progress_console())
    assert ("warning: unlabelled scans never counted" in capsys.readouterr().err) is told
