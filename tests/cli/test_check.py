import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import SHAPE, write_balls, write_scan
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.cli.check import _need_lines
from tracoco.project.check.check import Needs, TrainingNeeds
from tracoco.project.create import init_project
from tracoco.project.folder import Project

RUNNER = CliRunner()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=3)
    return init_project(data, tmp_path / "project", validation=1)


def test_a_sound_project_ends_with_0_and_says_what_it_takes(project: Project) -> None:
    result = RUNNER.invoke(app, ["check", str(project.root)])
    assert result.exit_code == 0, result.output
    assert "7 cases: 0 errors, 0 warnings" in result.output
    assert "disk: the store takes" in result.output
    assert "prepare: about" in result.output
    assert "train: about" in result.output
    assert f"next: tracoco prepare {project.root}" in result.output


def test_warnings_end_with_1_and_errors_with_2(project: Project, tmp_path: Path) -> None:
    labels = tmp_path / "data" / "labels"
    write_scan(labels / "case000.nii.gz", np.zeros(SHAPE, np.uint8))
    result = RUNNER.invoke(app, ["check", str(tmp_path / "data")])
    assert result.exit_code == 1
    assert "the label is empty" in result.output
    assert f"next: tracoco init {tmp_path / 'data'} -o PROJECT" in result.output
    (labels / "case001.nii.gz").write_bytes(b"nonsense")
    result = RUNNER.invoke(app, ["check", str(project.root)])
    assert result.exit_code == 2
    assert "7 cases: 1 error, 1 warning" in result.output
    assert "next: correct the errors" in result.output


def test_the_same_problem_of_many_cases_is_one_line(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=6, unlabelled=1)
    for index in range(6):
        write_scan(data / "labels" / f"case{index:03d}.nii.gz", np.zeros(SHAPE, np.uint8))
    output = RUNNER.invoke(app, ["check", str(data)]).output
    assert output.count("the label is empty") == 1
    assert "and 2 more" in output
    rows = json.loads(RUNNER.invoke(app, ["check", str(data), "--json"]).stdout)["rows"]
    assert len([row for row in rows if "is empty" in row["problem"]]) == 6


def test_json_has_rows_and_needs(project: Project) -> None:
    result = RUNNER.invoke(app, ["check", str(project.root), "--json"])
    printed = json.loads(result.stdout)
    assert printed.keys() == {"rows", "needs"}
    assert printed["rows"] == []
    assert printed["needs"]["disk_bytes"] > 0
    assert printed["needs"]["training_seconds"] > 0
    memory = f"{printed['needs']['training_memory_bytes'] / 1e9:.2g} GB"
    explained = RUNNER.invoke(app, ["plan", str(project.root), "--explain", "--json"])
    assert json.loads(explained.stdout)["reasons"][-2]["value"] == memory


def test_a_crop_that_the_network_cannot_take_is_a_row(project: Project) -> None:
    lines = project.plan_file.read_text(encoding="utf-8").splitlines()
    changed = ["crop: [17, 16, 16]" if line.startswith("crop:") else line for line in lines]
    project.plan_file.write_text("\n".join(changed), encoding="utf-8")
    result = RUNNER.invoke(app, ["check", str(project.root)])
    assert result.exit_code == 2
    assert "17" in result.output
    assert "plan.yaml" in result.output


def test_memory_that_cannot_be_counted_is_left_out_of_the_line() -> None:
    needs = Needs(disk_bytes=1, free_bytes=1)
    training = TrainingNeeds(3 * 10**9, training_seconds=60.0, training_steps=9)
    assert "on this machine and 3 GB, for 9 steps" in _need_lines(needs, training)[-1]
    uncounted = replace(training, training_memory_bytes=None)
    assert "train: about 60 s on this machine, for 9 steps" in _need_lines(needs, uncounted)[-1]
