"""`tracoco benchmark`: a grid is run once, goes on after a kill, and leaves one file a run."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from socket import gethostname

import pytest
from samples import make_project
from small_grid import TEXT

from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.studies.benchmark.command import BenchmarkRequest


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("balls"), labelled=6, unlabelled=2, test=2)


def command(folder: Path, project: Project, *more: str, steps: int = 2) -> list[str]:
    grid = folder / "grid.yaml"
    grid.write_text(TEXT.replace("STEPS", str(steps)))
    words = ["benchmark", str(grid), "--project", f"balls={project.root}", *more]
    return [sys.executable, "-m", "tracoco", *words]


def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_grid_is_run_once_and_kept_as_one_file_a_run(tmp_path: Path, project: Project) -> None:
    words = command(tmp_path, project, "--jobs", "2", "--json")
    done = run(words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["row"], row["labelled"], row["seed"]) for row in rows] == [
        ("supervised", 2, 0),
        ("cps", 2, 0),
    ]
    kept = json.loads((tmp_path / "grid" / "balls-cps-2-labels-seed0.json").read_text())
    assert {"dataset", "method", "labelled", "seed", "steps", "dice", "jaccard"} <= kept.keys()
    assert {"hd95", "asd", "missed", "seconds", "versions", "case_dice"} <= kept.keys()
    assert len(kept["case_dice"]) == 2
    # The runs may go: results of just these settings on just this data are enough.
    began = time.monotonic()
    folders = list((project.root / "benchmark").glob("*-seed0"))
    times = {folder: folder.stat().st_mtime_ns for folder in folders}
    again = run(words)
    assert json.loads(again.stdout)["rows"] == rows
    assert times == {folder: folder.stat().st_mtime_ns for folder in folders}
    assert time.monotonic() - began < 60


@pytest.mark.slow
def test_another_length_is_another_run(tmp_path: Path, project: Project) -> None:
    assert run(command(tmp_path, project)).returncode == 0
    longer = run(command(tmp_path, project, "--json", steps=3))
    assert {row["steps"] for row in json.loads(longer.stdout)["rows"]} == {3}


@pytest.mark.slow
def test_a_run_that_fails_is_told_after_the_table_of_the_others(
    tmp_path: Path, project: Project
) -> None:
    words = command(tmp_path, project, steps=3)
    grid = tmp_path / "grid.yaml"
    broken = "supervised: {set: {optimizer.lr: 1.0e+30}}"
    grid.write_text(grid.read_text().replace("supervised: {}", broken))
    failed = run(words)
    assert failed.returncode == 2
    assert "Balls: 1 of 2 runs done" in failed.stdout
    assert "balls-supervised-2-labels-seed0: " in failed.stderr
    assert "the loss of method 'supervised' is not finite" in failed.stderr
    assert [path.name for path in (tmp_path / "grid").iterdir()] == [
        "balls-cps-2-labels-seed0.json"
    ]
    names = [path.name for path in (project.root / "benchmark" / "logs").iterdir()]
    assert all(name.startswith(f"grid-{gethostname()}-") for name in names)


@pytest.mark.slow
def test_a_stopped_grid_goes_on(tmp_path: Path, project: Project) -> None:
    words = command(tmp_path, project, steps=400)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    runs = project.root / "benchmark"
    known = set(runs.glob("*/last.pt"))
    deadline = time.monotonic() + 120
    while set(runs.glob("*/last.pt")) <= known and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "goes on from here" in said
    (begun,) = [path.parent for path in set(runs.glob("*/last.pt")) - known]
    taken = len((begun / "log.jsonl").read_text().splitlines())
    assert 0 < taken < 400


def test_a_data_set_without_a_folder_is_an_error(tmp_path: Path, project: Project) -> None:
    words = command(tmp_path, project)
    words[words.index("--project") + 1] = f"heart={project.root}"
    refused = run(words)
    assert refused.returncode == 2
    assert "--project balls=FOLDER" in refused.stderr


def test_a_mistake_in_a_row_is_told_before_anything_is_trained(
    tmp_path: Path, project: Project
) -> None:
    words = command(tmp_path, project)
    grid = tmp_path / "grid.yaml"
    grid.write_text(grid.read_text().replace("cps: {}", "cps: {set: {method.nois: 1}}"))
    refused = run(words)
    assert refused.returncode == 2
    assert "row 'cps' on balls" in refused.stderr
    assert not (tmp_path / "grid").exists()


def test_a_file_in_the_place_of_the_results_is_told_before_anything_starts(
    tmp_path: Path, project: Project
) -> None:
    grid = tmp_path / "grid"
    grid.write_text(TEXT.replace("STEPS", "2"))
    request = BenchmarkRequest(grid, (f"balls={project.root}",), grid.with_suffix(""))
    with pytest.raises(UserError, match="is a file; name a folder"):
        request.run(None)
