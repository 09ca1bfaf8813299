"""docs/reference/methods.md is made of the table of methods, and its guide works to the letter."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from benchmarks.methods_page import PAGE, page
from samples import make_project, write_ball

from tracoco import Predictor
from tracoco.errors import UserError
from tracoco.methods import METHODS
from tracoco.testing import CHECKS

GUIDE = PAGE.read_text(encoding="utf-8").split("## Add your own method\n")[1].split("\n## ")[0]
(FILE,) = re.findall(r"Save this as `(\w+\.py)`", GUIDE)
EXAMPLE, FROM_PYTHON, CHECKED = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
(GRID,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
(PROJECT_FILE,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
(PIP,) = re.findall(r"^    pip (.*)$", GUIDE, re.MULTILINE)
*INSTALLED, INSTALLED_BENCHMARK = re.findall(r"^    tracoco (.*)$", GUIDE, re.MULTILINE)
*COMMANDS, BENCHMARK = re.findall(rf"^    python {FILE} (.*)$", GUIDE, re.MULTILINE)
SMALL = ["--set", "training.steps=2", "--set", "network.filters=4", "--set", "data.crop=[16,16,16]"]


def test_the_committed_page_is_made_of_the_facts_as_they_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m benchmarks.methods_page`"


def test_every_method_has_a_row_that_leads_to_its_section() -> None:
    text = PAGE.read_text(encoding="utf-8")
    overview = text.partition("## Beside the releases")[0]
    assert re.findall(r"^\| \[([\w-]+)\]\(#\1\) \|", overview, re.MULTILINE) == list(METHODS)
    assert set(METHODS) <= set(re.findall(r"^## ([\w-]+)$", text, re.MULTILINE))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the guide has it: a project, scans to predict, and the file."""
    project = make_project(tmp_path / "made", labelled=6, test=1)
    project.root.rename(tmp_path / "heart")
    write_ball(tmp_path, "new", 7, labelled=False)
    (tmp_path / "images").rename(tmp_path / "new_scans")
    (tmp_path / FILE).write_text(EXAMPLE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def follow(
    place: Path, run: Callable[[list[str]], str], commands: Sequence[str] = COMMANDS
) -> None:
    """All commands of the guide, one after the other."""
    assert [command.split()[0] for command in commands] == ["methods", "train", "train", "predict"]
    told, trained, resumed, predicted = (run(shlex.split(command)) for command in commands)
    assert "  Learn your own labels of unlabelled crops, where you are sure of them.\n" in told
    assert "  threshold = 0.9\n    A voxel teaches where" in told
    assert "trained" in trained
    assert trained == resumed
    assert "1 predictions in labels" in predicted
    label = nib.load(place / "labels" / "new.nii.gz")
    assert label.shape == nib.load(place / "new_scans" / "new.nii.gz").shape
    assert set(np.unique(label.dataobj)) <= {0, 1}


@pytest.fixture
def _methods_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "sure-labels", METHODS["supervised"])
    monkeypatch.delitem(METHODS, "sure-labels")
    monkeypatch.delitem(sys.modules, FILE.removesuffix(".py"), raising=False)


@pytest.mark.usefixtures("_methods_are_as_before")
def test_the_guide_works_in_this_process_on_small_crops(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(words: list[str]) -> str:
        METHODS.pop("sure-labels", None)  # every command is a process of its own
        small = SMALL if words[0] == "train" else []
        monkeypatch.setattr(sys, "argv", [FILE, *words, *small])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(FILE, run_name="__main__")
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return out

    follow(place, run)
    METHODS.pop("sure-labels")
    with pytest.raises(UserError, match=r"'sure-labels' does not exist.*the file which registers"):
        Predictor.load("heart/runs/sure-labels-seed0")
    monkeypatch.syspath_prepend(place)
    found = runpy.run_path(str(write(place / "from_python.py", FROM_PYTHON)))
    assert type(found["predictor"].method).__name__ == "SureLabels"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.usefixtures("_methods_are_as_before")
def test_the_check_of_the_guide_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / FILE, EXAMPLE)
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_path(str(write(tmp_path / "checked.py", CHECKED)))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == sum(len(check.cases) for check in CHECKS.values())
    assert all(line.startswith("sure-labels: ok: ") for line in lines)


def run_in(place: Path, command: list[str], **environment: str) -> str:
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env=os.environ | environment,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def write_grid(place: Path) -> None:
    small = "".join(f"  {each.replace('=', ': ')}\n" for each in SMALL[1::2])
    write(place / "grid.yaml", f"{GRID}set:\n{small}")


@pytest.mark.slow
def test_the_guide_works_to_the_letter(place: Path) -> None:
    def run(words: list[str]) -> str:
        return run_in(place, [sys.executable, FILE, *words])

    follow(place, run)
    write_grid(place)
    assert "all 6 runs done" in run(shlex.split(BENCHMARK))
    run_in(place, [sys.executable, str(write(place / "from_python.py", FROM_PYTHON))])


@pytest.mark.slow
def test_installed_as_a_package_the_method_is_known_by_name(place: Path) -> None:
    pytest.importorskip("setuptools")
    package, target = place / "package", place / "installed"
    package.mkdir()
    write(package / "pyproject.toml", PROJECT_FILE)
    (place / FILE).rename(package / FILE)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    run_in(package, [sys.executable, "-m", "pip", *shlex.split(PIP), *offline])
    paths = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))

    def run(words: list[str]) -> str:
        return run_in(place, [sys.executable, "-m", "tracoco", *words], PYTHONPATH=paths)

    follow(place, run, INSTALLED)
    write_grid(place)
    assert "all 6 runs done" in run(shlex.split(INSTALLED_BENCHMARK))
    assert "sure-labels" in run(["methods", "--family", "pseudo-labels"])
    run(["report", "heart/runs/sure-labels-seed0"])
    report = (place / "heart/runs/sure-labels-seed0/report.html").read_text(encoding="utf-8")
    assert "Learn your own labels of unlabelled crops" in report
