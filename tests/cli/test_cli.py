"""The command line: what it prints, how it fails, how fast it answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from samples import make_project, write_ball, write_balls, write_scan

from tracoco.cli import main
from tracoco.methods import METHODS
from tracoco.project.folder import Project

SHORT = ["--set", "training.steps=2", "--set", "network.filters=4", "--set", "data.workers=0"]
CROP = ["--set", "data.crop=[16, 16, 16]"]

Run = tuple[int, str, str]


@pytest.fixture
def tracoco(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Command":
    return Command(monkeypatch, capsys)


class Command:
    """`tracoco` with some arguments, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> Run:
        self.monkeypatch.setattr(sys, "argv", ["tracoco", *map(str, arguments)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = self.capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    def refuses(self, *arguments: object) -> str:
        """The one line of a user's mistake."""
        code, out, err = self(*arguments)
        assert code == 2, err
        assert out == ""
        assert "Traceback" not in err
        assert err.startswith(f"tracoco {arguments[0]}: ")
        return err.strip()


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_whole_path_from_scans_to_a_comparison(tracoco: Command, tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=2)
    project, run = tmp_path / "project", tmp_path / "run"
    code, out, _ = tracoco("init", data, "-o", project, "--validation", 1)
    assert (code, "2 labelled, 2 unlabelled, 1 validation, 0 test cases" in out) == (0, True)
    assert f"tracoco prepare {project}" in out
    code, out, _ = tracoco("prepare", project)
    assert (code, "5 cases" in out) == (0, True)
    code, out, _ = tracoco("train", project, "-o", run, *SHORT, *CROP)
    assert (code, f"trained 2 steps: {run}" in out) == (0, True)
    predictions = run / "predictions" / "test"
    code, out, _ = tracoco("predict", run, data / "images", predictions)
    assert (code, "5 predictions" in out) == (0, True)
    for case in ("case003", "case004"):  # they have no truth
        (predictions / f"{case}.nii.gz").unlink()
    code, out, _ = tracoco("evaluate", predictions, data / "labels", "--json")
    scores = json.loads(out)
    assert code == 0
    assert {row["case"] for row in scores["rows"]} == {"case000", "case001", "case002"}
    code, out, _ = tracoco("evaluate", predictions, data / "labels")
    assert (code, "Dice" in out) == (0, True)
    code, out, _ = tracoco("report", run)
    assert (code, Path(out.strip()).read_text(encoding="utf-8")[:15]) == (0, "<!doctype html>")
    code, out, _ = tracoco("compare", run, "--json")
    (row,) = json.loads(out)["rows"]
    assert (row["method"], row["labelled"], row["dice"]) == (
        "tracoco",
        2,
        scores["summary"]["dice"],
    )
    code, out, _ = tracoco("compare", run, run, "--csv", tmp_path / "runs.csv")
    assert (code, "95 % interval" in out) == (0, True)
    assert (tmp_path / "runs-pairs.csv").is_file()


def test_the_papers_protocol_from_training_to_scores(tracoco: Command, tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=5, unlabelled=1)
    project, run = tmp_path / "project", tmp_path / "run"
    tracoco("init", data, "-o", project, "--test", 2)
    tracoco("prepare", project)
    paper = ["--select-on-test", "--set", "data.labelled=2", "--set", "inference.stride=[8, 8, 2]"]
    code, _, err = tracoco("train", project, "-o", run, *SHORT, *CROP, *paper)
    assert code == 0
    assert "2 labelled (1 label hidden) and 2 unlabelled cases" in err
    mark = "best was chosen on the test cases"
    assert mark in err
    out = run / "predictions" / "test"
    code, printed, _ = tracoco("predict", run, project, out, "--checkpoint", "best", "--cct")
    assert (code, mark in printed) == (0, True)
    code, printed, _ = tracoco("evaluate", out, project, "--protocol", "paper", "--cct", "--json")
    scores = json.loads(printed)
    assert (code, scores["watermark"], scores["predicted_with_cct"]) == (0, mark, True)
    assert scores["protocol"] == {
        "units": "voxel",
        "empty": "zero",
        "tolerance": 2.0,
        "cct": True,
    }
    printed = tracoco("evaluate", out, project, "--protocol", "paper")[1]
    assert "voxel" in printed
    assert mark in printed
    assert "were removed when predicting (--cct)" in " ".join(printed.split())
    error = tracoco.refuses("evaluate", out, project, "--protocol", "paper", "--units", "mm")
    assert "--protocol paper means --units voxel" in error


def test_an_empty_folder(tracoco: Command, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert "data" in tracoco.refuses("init", tmp_path / "data", "-o", tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_bad_scans_are_named_all_at_once_and_nothing_is_written(
    tracoco: Command, tmp_path: Path
) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=0)
    write_scan(data / "labels" / "case000.nii.gz", np.zeros((99, 5, 5), dtype=np.uint8))
    write_scan(data / "labels" / "case001.nii.gz", np.full((26, 24, 20), 0.5, dtype=np.float32))
    whole = (data / "labels" / "case002.nii.gz").read_bytes()
    (data / "labels" / "case002.nii.gz").write_bytes(whole[: len(whole) // 2])
    error = tracoco.refuses("init", data, "-o", tmp_path / "project")
    assert all(f"case00{index}" in error for index in range(3))
    assert "3 problems" in error
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("fault", ["truncated", "nan"])
def test_a_bad_image_stops_prepare_with_its_name(
    tracoco: Command, tmp_path: Path, fault: str
) -> None:
    project = make_project(tmp_path)
    image = tmp_path / "data" / "images" / "case006.nii.gz"
    if fault == "truncated":
        image.write_bytes(image.read_bytes()[:2000])
    else:
        write_scan(image, np.full((26, 24, 20), np.nan, dtype=np.float32))
    before = contents(project.root)
    assert "case006" in tracoco.refuses("prepare", project.root)
    assert contents(project.root) == before


def test_a_label_with_unknown_values_stops_prepare(tracoco: Command, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    write_scan(
        tmp_path / "data" / "labels" / "case000.nii.gz", np.full((26, 24, 20), 7, dtype=np.uint8)
    )
    before = contents(project.root)
    error = tracoco.refuses("prepare", project.root)
    assert "case000" in error
    assert "7" in error
    assert contents(project.root) == before


def test_an_existing_project_is_left_alone(tracoco: Command, project: Project) -> None:
    before = contents(project.root)
    assert "exists" in tracoco.refuses("init", project.root.parent / "data", "-o", project.root)
    assert contents(project.root) == before


def test_a_crop_that_does_not_fit_the_network(
    tracoco: Command, project: Project, tmp_path: Path
) -> None:
    arguments = ("train", project.root, "-o", tmp_path / "run", *SHORT)
    error = tracoco.refuses(*arguments, "--set", "data.crop=[17, 17, 16]")
    assert "16 and 24" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "traccoco"], "did you mean 'tracoco'"),
        (["--preset", "dem"], "did you mean 'demo'"),
        (["--set", "method.alpha=1"], "'alpha' is not a setting"),
        (["--set", "network.name=vent"], "did you mean 'vnet'"),
        (["--device", "cuda:9"], "not on this machine"),
        (["--set", "data.unlabelled_batch=1"], "method.cutmix to false"),
    ],
)
def test_a_wrong_setting_is_named_and_leaves_no_run(
    tracoco: Command, project: Project, tmp_path: Path, arguments: list[str], message: str
) -> None:
    run = tmp_path / "run"
    assert message in tracoco.refuses("train", project.root, "-o", run, *SHORT, *CROP, *arguments)
    assert not run.exists()


def test_an_existing_run_and_a_checkpoint_cut_short(
    tracoco: Command, project: Project, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train = ("train", project.root, "-o", run, *SHORT, *CROP)
    assert tracoco(*train)[0] == 0
    before = contents(run)
    assert "--resume" in tracoco.refuses(*train)
    assert contents(run) == before
    checkpoint = run / "last.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    before = contents(run)
    assert "last.pt is damaged" in tracoco.refuses(*train, "--resume")
    image = project.load_cases()[0].images[0]
    assert "last.pt is damaged" in tracoco.refuses("predict", run, image, tmp_path / "out")
    assert contents(run) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["prepare", "train"])
def test_a_full_disk(
    tracoco: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    project = make_project(tmp_path)
    write_ball(tmp_path / "data", "case000", 99, labelled=True)  # something new to prepare
    before = contents(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    arguments = ["-o", tmp_path / "run", *SHORT, *CROP] if command == "train" else []
    assert "no space left" in tracoco.refuses(command, project.root, *arguments)
    assert contents(tmp_path) == before


def test_a_path_that_is_a_file_is_one_line(
    tracoco: Command, project: Project, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    assert "is a file" in tracoco.refuses("train", project.root, "-o", notes, *SHORT, *CROP)
    assert "notes.txt" in tracoco.refuses("train", project.root, "-o", notes / "run", *SHORT, *CROP)
    assert "already exists" in tracoco.refuses("demo", "--out", notes)
    assert notes.read_text(encoding="utf-8") == "mine"


def test_resuming_into_a_folder_that_is_no_run_leaves_it_alone(
    tracoco: Command, project: Project
) -> None:
    before = contents(project.root)
    error = tracoco.refuses("train", project.root, "-o", project.root, "--resume", *SHORT, *CROP)
    assert "is no run" in error
    assert contents(project.root) == before


def test_methods_and_presets_as_text_and_json(tracoco: Command) -> None:
    code, out, _ = tracoco("methods", "--json")
    assert code == 0
    assert [row["method"] for row in json.loads(out)["rows"]] == list(METHODS)
    assert "Two networks" in tracoco("methods")[1]
    assert "demo" in [row["preset"] for row in json.loads(tracoco("presets", "--json")[1])["rows"]]
    assert tracoco("presets", "demo")[1].startswith("# ")
    assert "does not exist" in tracoco.refuses("presets", "dmo")


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["methods"]])
def test_help_is_quick_and_imports_no_torch(arguments: list[str]) -> None:
    program = (
        "import sys; from tracoco.cli import main\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    times = []
    for _ in range(3):
        before = os.times()
        result = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
        )
        after = os.times()
        times.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        assert result.returncode == 0, result.stderr
    # Of processor time, since tests run beside each other; half a second on an idle machine.
    assert min(times) < 1.0
