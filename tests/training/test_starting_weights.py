"""`train --init-from`: an earlier run's weights to begin with, and nothing else of it."""

from pathlib import Path

import pytest
import torch
from started_runs import SHORT, equal, first_weights, start
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.files import read_json, write_json, write_text
from tracoco.project.folder import Project
from tracoco.reporting.page import write_report
from tracoco.runs.folder import RunFolder, load_checkpoint, method_state
from tracoco.training import trainer as training


@pytest.fixture(scope="module")
def earlier(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "earlier"
    start(project, out, steps=3)
    return out


def test_a_run_begins_with_the_earlier_weights_at_step_0(
    project: Project, earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = first_weights(monkeypatch)
    out = tmp_path / "run"
    start(project, out, init_from=earlier)
    assert equal(seen[0], method_state(load_checkpoint(earlier / "last.pt")))
    assert seen[0]["step"] == 0
    start(project, tmp_path / "drawn")
    assert not equal(seen[0], {k: v for k, v in seen[1].items() if k != "step"})
    facts = RunFolder(out).facts().init_from
    assert facts is not None
    assert (facts.run, facts.step, facts.seen) == (str(earlier), 3, ())
    assert RunFolder(tmp_path / "drawn").facts().init_from is None
    page = write_report(out).read_text(encoding="utf-8")
    assert str(earlier) in page
    assert "init_from.step" in page


def test_resumed_it_is_the_run_that_was_never_stopped(
    project: Project, earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = start(project, tmp_path / "whole", steps=4, init_from=earlier)
    out = tmp_path / "run"
    save = training.Trainer.save

    def killed(trainer: training.Trainer, name: str) -> None:
        save(trainer, name)
        if trainer.step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training.Trainer, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            start(project, out, steps=4, init_from=earlier)
    moved = earlier.rename(tmp_path / "gone")  # no longer needed
    try:
        assert equal(start(project, out, steps=4, resume=True, init_from=earlier), whole)
    finally:
        moved.rename(earlier)
    with pytest.raises(UserError, match=r"was started from .*earlier; resume it without"):
        start(project, out, steps=4, resume=True, init_from=out)
    with pytest.raises(UserError, match="was started without --init-from"):
        start(project, earlier, steps=3, resume=True, init_from=out)


def test_stopped_before_its_first_checkpoint_it_begins_with_them_again(
    project: Project, earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    start(project, out, steps=2, init_from=earlier)
    for name in ("last.pt", "best.pt", "log.jsonl"):
        (out / name).unlink()
    seen = first_weights(monkeypatch)
    start(project, out, steps=2, resume=True)
    assert equal(seen[0], method_state(load_checkpoint(earlier / "last.pt")))
    (out / "last.pt").unlink()
    content = (earlier / "last.pt").read_bytes()
    try:
        (earlier / "last.pt").write_bytes(content + b" ")
        with pytest.raises(UserError, match="has changed since this run was made from it"):
            start(project, out, steps=2, resume=True)
    finally:
        (earlier / "last.pt").write_bytes(content)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["network.filters=8"], "network.filters 4 there and 8 here"),
        (
            ["network.name=vnet", "data.crop=[32, 32, 32]"],
            "network.name light-unet there and vnet here",
        ),
        (["method.name=cps"], "method.name tracoco there and cps here"),
    ],
)
def test_another_model_is_refused_with_what_differs(
    project: Project, earlier: Path, tmp_path: Path, settings: list[str], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        start(project, tmp_path / "run", *settings, init_from=earlier)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"label_values": (0, 2)}, r"label_values \[0, 2\] there and \[0, 1\] here"),
        ({"channels": 2}, "channels 2 there and 1 here"),
    ],
)
def test_another_task_is_refused(
    project: Project,
    earlier: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
    named: str,
) -> None:
    other = project.load_plan().model_copy(update=change)
    monkeypatch.setattr(RunFolder, "plan", lambda _: other)
    with pytest.raises(UserError, match=named):
        start(project, tmp_path / "run", init_from=earlier)


def test_weights_that_do_not_fit_are_refused_by_name(
    project: Project, earlier: Path, tmp_path: Path
) -> None:
    content = (earlier / "last.pt").read_bytes()
    checkpoint = load_checkpoint(earlier / "last.pt")
    name, _ = checkpoint["method"].popitem()
    checkpoint["averaged"].pop(name, None)
    try:
        torch.save(checkpoint, earlier / "last.pt")
        with pytest.raises(
            UserError, match=r"has weights that do not fit .* leave out --init-from"
        ):
            start(project, tmp_path / "run", init_from=earlier)
    finally:
        (earlier / "last.pt").write_bytes(content)
    (tmp_path / "bare").mkdir()
    for name in ("config.yaml", "plan.yaml", "splits.json"):
        (tmp_path / "bare" / name).write_bytes((earlier / name).read_bytes())
    with pytest.raises(UserError, match="saved no weights to start from"):
        start(project, tmp_path / "run", init_from=tmp_path / "bare")


def test_cases_that_the_earlier_run_has_learnt_from_are_named(
    project: Project, earlier: Path, tmp_path: Path
) -> None:
    (validated,) = project.load_splits().validation
    splits = earlier / "splits.json"
    text = splits.read_text(encoding="utf-8")
    values = read_json(splits)
    values["labelled"], values["validation"] = [*values["labelled"], validated], []
    try:
        write_json(splits, values)
        start(project, tmp_path / "run", init_from=earlier)
    finally:
        write_text(splits, text)
    facts = RunFolder(tmp_path / "run").facts().init_from
    assert facts is not None
    assert facts.seen == (validated,)


def test_the_command_takes_a_run(project: Project, earlier: Path, tmp_path: Path) -> None:
    settings = [part for each in [*SHORT, "training.steps=1"] for part in ("--set", each)]
    out = tmp_path / "run"
    line = ["train", str(project.root), "-o", str(out), "--init-from", str(earlier), *settings]
    found = CliRunner().invoke(app, line)
    assert found.exit_code == 0, found.output
    assert f"tracoco from {earlier}, step 3, common recipe, on" in found.stderr
    facts = RunFolder(out).facts().init_from
    assert facts is not None
    assert facts.run == str(earlier)


def test_weights_of_other_levels_are_refused_with_the_setting_to_copy(
    project: Project, earlier: Path, tmp_path: Path
) -> None:
    there = RunFolder(earlier).config().network.strides
    assert there is not None
    levels = [list(stride) for stride in there]
    other = [[2, 2, 1]]
    assert levels != other
    with pytest.raises(UserError) as refused:
        start(project, tmp_path / "run", f"network.strides={other}", init_from=earlier)
    assert f"network.strides {levels} there and {other} here" in str(refused.value)
    assert f"--set 'network.strides={levels}'" in str(refused.value)
    same = f"network.strides={levels}"
    start(project, tmp_path / "run", same, steps=1, init_from=earlier)
