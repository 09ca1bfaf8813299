"""`tracoco next`, `update` and `serve` on the command line."""

import json
import sys
from pathlib import Path

import pytest
from labelling.conftest import SETTINGS, draw
from samples import make_project

import tracoco as tc
from tracoco.cli import main
from tracoco.project.folder import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("loop"), labelled=3, unlabelled=3, validation=1)
    tc.train(project, settings=SETTINGS, progress=False)
    return project


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tracoco", *map(str, words)])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)


def test_the_loop_from_the_command_line(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = project.runs_root / "tracoco-seed0"
    assert run(monkeypatch, "next", project.root, trained, "-n", 2, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["drafts"] == str(project.root / "drafts")
    assert len(found["rows"]) == 2
    keys = {"case", "disagreement", "entropy", "uncertainty", "novelty", "nearest", "why"}
    assert keys | {"images", "draft", "kept"} == set(found["rows"][0])

    assert run(monkeypatch, "next", project.root, trained, "-n", 2) == 0
    shown = capsys.readouterr().out
    case = found["rows"][0]["case"]
    assert f"{case}: the two networks differ by" in shown
    drafts = project.root / "drafts"
    assert f"tracoco update {project.root} --labels {drafts} --train" in shown

    draw(Path(found["rows"][0]["draft"]))
    assert run(monkeypatch, "update", project.root, "--labels", drafts) == 0
    shown = capsys.readouterr().out
    assert "1 scan newly labelled, 0 corrected, 0 unchanged" in shown
    assert "drafts that nobody has changed were left out" in shown
    assert f"next: tracoco update {project.root} --train" in shown

    words = ("update", project.root, "--train", "--set", "training.steps=2")
    assert run(monkeypatch, *words) == 0
    shown = capsys.readouterr().out
    assert "round 1: 2 steps with 3 labels" in shown
    assert "Dice of 1 validation case: " in shown
    assert run(monkeypatch, "report", project.root) == 0
    assert capsys.readouterr().out.strip() == str(project.root / "report" / "index.html")


def test_mistakes_are_one_line(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    trained = project.runs_root / "tracoco-seed0"
    assert run(monkeypatch, "next", project.root, project.root) == 2
    assert "is not a run" in capsys.readouterr().err
    assert run(monkeypatch, "update", tmp_path, "--train") == 2
    assert "is not a project folder" in capsys.readouterr().err
    assert run(monkeypatch, "serve", tmp_path) == 2
    assert "is not a project folder" in capsys.readouterr().err
    assert run(monkeypatch, "serve", project.root, "--host", "no.such.host.invalid") == 2
    assert "cannot listen on no.such.host.invalid:8000" in capsys.readouterr().err
    assert run(monkeypatch, "predict", trained, tmp_path, tmp_path / "o", "--part", "all") == 2
    assert "--part all is a part of a project" in capsys.readouterr().err


def test_serve_names_the_extra_that_it_needs(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tracoco.serving.app", None)
    assert run(monkeypatch, "serve", project.root) == 2
    assert "pip install 'tracoco[serve]'" in capsys.readouterr().err
