"""`tracoco doctor`, and what a shell completes."""

import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tracoco as tc
from tracoco.api import doctor as module
from tracoco.cli import app
from tracoco.methods import METHODS
from tracoco.presets import preset_names
from tracoco.runs import build
from tracoco.training import acceleration, step_cost


def rows(folder: Path) -> dict[str, module.Finding]:
    return {row.name: row for row in tc.doctor(folder, progress=False).rows}


def test_this_environment_is_examined_as_json_and_as_a_table(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", str(tmp_path), "--json"])
    found = json.loads(result.stdout)
    names = {row["name"]: row for row in found["rows"]}
    assert result.exit_code == (0 if found["healthy"] else 1)
    assert names["tracoco"]["value"] == tc.__version__
    assert names["torch"]["value"] == torch.__version__
    assert f"GB free in {tmp_path}" in names["disk"]["value"]
    assert " s a step" in names["speed of a training"]["value"]
    usable = names["precisions that work"]["value"].split(" (")[0].split(", ")
    assert usable[0] == "fp32"
    assert names["precision by default"]["value"].split(" (")[0] in {*usable} & {"fp32", "bf16"}
    assert {"extra dicom", "extra slurm"} <= set(names)
    assert {"extra dev", "extra bench"}.isdisjoint(names)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes time is measured by the test above."""
    monkeypatch.setattr(module, "_speed", list)


@pytest.mark.parametrize("has_bf16", [True, False])
def test_the_default_precision_is_one_of_those_that_work(
    monkeypatch: pytest.MonkeyPatch, *, has_bf16: bool
) -> None:
    """Also where a small convolution is wrong in bf16, which a training keeps in fp32."""
    monkeypatch.setattr(acceleration, "computes", lambda dtype, _: dtype != torch.bfloat16)
    monkeypatch.setattr(acceleration, "cpu_has_bf16", lambda: has_bf16)
    monkeypatch.setattr(acceleration, "is_faster", lambda *_: True)
    monkeypatch.setattr(step_cost, "step_seconds", lambda *_: 1.0)
    monkeypatch.setattr(build, "choose_device", lambda _: torch.device("cpu"))
    found = {row.name: row.value for row in module._speed()}
    assert found["precisions that work"] == "fp32, bf16, fp16 (choices of training.precision)"
    default = "bf16" if has_bf16 else "fp32"
    assert found["precision by default"] == f"{default} (training.precision=auto)"


@pytest.mark.usefixtures("_no_training")
def test_what_is_missing_is_told_with_the_command_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("h5py", "highdicom"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "2.9.1" if name == "torch" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = rows(tmp_path)
    assert (found["h5py"].value, found["h5py"].state) == ("missing", "problem")
    assert found["h5py"].advice == "pip install 'h5py>=3.10'"
    assert (found["torch"].value, found["torch"].state) == ("2.9.1", "problem")
    extra = found["extra dicom"]
    assert (extra.value, extra.state) == ("without highdicom", "note")
    assert extra.advice.startswith("pip install 'tracoco[dicom]'")
    result = CliRunner().invoke(app, ["doctor", str(tmp_path)])
    assert result.exit_code == 1
    assert "problems: 2" in result.stdout


def test_every_extra_of_users_has_its_use() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert list(module.USES) == sorted(extras.keys() - {*module.FOR_DEVELOPERS})


@pytest.mark.usefixtures("_no_training")
def test_more_threads_than_processors_are_a_problem(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(module.usable_processors() + 1)
    try:
        found = rows(tmp_path)["threads"]
    finally:
        torch.set_num_threads(threads)
    assert found.state == "problem"
    assert f"OMP_NUM_THREADS={module.usable_processors()}" in found.advice


@pytest.mark.usefixtures("_no_training")
def test_a_folder_that_does_not_exist_yet_is_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    found = rows(tmp_path / "not" / "yet")
    assert found["disk"].value.endswith(f"in {tmp_path}")
    assert "written" in found["disk speed"].value


@pytest.mark.parametrize(
    ("text", "expected"), [("max\n", None), ("2000000000\n", 2_000_000_000), (f"{1 << 62}\n", None)]
)
def test_the_limit_of_a_container_counts(tmp_path: Path, text: str, expected: int | None) -> None:
    assert module.container_memory(tmp_path) is None
    (tmp_path / "memory.max").write_text(text, encoding="ascii")
    assert module.container_memory(tmp_path) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tracoco tra", ["train"]),
        ("tracoco train heart --mi", ["--minutes"]),
        ("tracoco train heart --method ua", [name for name in METHODS if name.startswith("ua")]),
        ("tracoco presets la-8", [name for name in preset_names() if name.startswith("la-8")]),
    ],
)
def test_bash_completes_commands_options_and_names(line: str, expected: list[str]) -> None:
    asked = {
        "_TRACOCO_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    program = "from tracoco.cli import app; app(prog_name='tracoco')"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == expected


def test_completion_is_installed_for_a_shell(tmp_path: Path) -> None:
    program = "import sys; from tracoco.cli import main; sys.argv[0] = 'tracoco'; main()"
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    result = subprocess.run(
        [sys.executable, "-c", program, "--install-completion", "bash"],
        # The shell is named, since typer would look for one among the processes above this one.
        env=kept | {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "bash completion installed" in result.stdout, result.stderr
    script = tmp_path / ".bash_completions" / "tracoco.sh"
    assert "_TRACOCO_COMPLETE=complete_bash" in script.read_text(encoding="utf-8")
    assert str(script) in (tmp_path / ".bashrc").read_text(encoding="utf-8")
