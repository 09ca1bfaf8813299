"""`tracoco plan` and the processes of `prepare`, from the command line."""

import json
import sys
from pathlib import Path

import pytest
from samples import write_balls

from tracoco.cli import main
from tracoco.files import read_json, write_json
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan


@pytest.fixture
def project(tmp_path: Path) -> Project:
    data = write_balls(tmp_path / "data", labelled=2, unlabelled=1)
    return init_project(data, tmp_path / "project")


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["tracoco", *map(str, arguments)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main()
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


def test_the_plan_is_printed_as_it_is_written(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(capsys, monkeypatch, "plan", project.root)
    assert (code, out) == (0, project.plan_file.read_text())
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--json")
    assert json.loads(out) == {"plan": project.load_plan().model_dump(mode="json")}


def test_every_value_is_explained(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--explain", "--json")
    result = json.loads(out)
    names = [reason["name"] for reason in result["reasons"]]
    assert code == 0
    assert {"dimensions", "spacing_mm", "window, channel 0", "crop", "class 1"} <= set(names)
    networks = {
        row["value"]: row["why"] for row in result["reasons"] if row["name"] == "network.name"
    }
    (time,) = [row for row in result["reasons"] if row["name"] == "time of a training"]
    assert time["value"].endswith(("s", "min", "h"))
    assert time["numbers"].startswith("tracoco, 2,000 steps of ")
    # The crop is 16 x 16 x 24: the last axis can be halved three times, not four.
    assert networks["light-unet"] == "can be trained on this crop"
    assert networks["vnet"] == "needs multiples of 16"
    # Scans have 20 voxels along the last axis.
    assert any("no room to translate along axis 2 in 3 of 3" in line for line in result["warnings"])
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--explain")
    assert (code, "median of the scans" in out, "warning: no room" in out) == (0, True, True)


def test_redo_keeps_the_old_plan_and_says_what_changed(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = project.plan_file.read_text()
    named = text.replace('"label 1"', '"ball"').replace("mirror_axes: []", "mirror_axes: [0]")
    edited = named.replace("spacing_mm: [1.0, 1.0, 2.0]", "spacing_mm: [2.0, 2.0, 2.0]")
    assert edited != named != text
    project.plan_file.write_text(edited)
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--redo")
    assert code == 0
    assert "spacing_mm: [2.0, 2.0, 2.0] -> [1.0, 1.0, 2.0]" in out
    assert f"next: tracoco prepare {project.root}" in out
    assert project.plan_file.with_name("plan.yaml.bak").read_text() == edited
    assert project.plan_file.read_text() == named  # names and sides are not in the data
    _, out, _ = run(capsys, monkeypatch, "plan", project.root, "--redo")
    assert out == "the plan is as it was\n"


def test_redo_keeps_what_a_recipe_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_balls(tmp_path / "data", labelled=2, unlabelled=0)
    for index, number in enumerate(("0057", "0018")):  # the first two of the list
        (data / f"images/case00{index}.nii.gz").rename(data / f"PANCREAS_{number}.nii.gz")
        (data / f"labels/case00{index}.nii.gz").rename(data / f"label{number}.nii.gz")
    project = Project(tmp_path / "pancreas")
    words = ("init", data, "-o", project.root, "--paper-data", "pancreas", "--partial")
    assert run(capsys, monkeypatch, *words)[0] == 0
    text = project.plan_file.read_text()
    plan = project.load_plan()
    assert (plan.spacing_mm, plan.window) == ((1, 1, 1), ((-125, 275),))  # of 1, 1 and 2 mm
    project.plan_file.write_text(text.replace("[1.0, 1.0, 1.0]", "[3.0, 3.0, 3.0]"))
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--redo")
    assert (code, "spacing_mm: [3.0, 3.0, 3.0] -> [1.0, 1.0, 1.0]" in out) == (0, True)
    assert project.plan_file.read_text() == text
    # Projects of before do not remember it: the scans decide.
    origin = read_json(project.origin_file)
    known = {"normalisation": "range", "spacing_mm": [1, 1, 1], "window": [-125, 275]}
    assert origin.pop("plan") == known
    write_json(project.origin_file, origin)
    assert run(capsys, monkeypatch, "plan", project.root, "--redo")[0] == 0
    assert (project.load_plan().spacing_mm, project.load_plan().normalisation) == (
        (1, 1, 2),
        "zscore",
    )


def test_a_folder_that_is_no_project_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in ([], ["--redo"], ["--explain"]):
        code, out, err = run(capsys, monkeypatch, "plan", tmp_path, *options)
        assert (code, out) == (2, "")
        assert err.startswith("tracoco plan: ")
        assert "is not a project folder" in err


@pytest.mark.parametrize(("options", "workers"), [([], None), (["--workers", 3], 3)])
def test_prepare_takes_a_number_of_processes(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[object],
    workers: int | None,
) -> None:
    asked = []

    def prepare(_: Project, __: object, wanted: int | None, *___: object) -> int:
        asked.append(wanted)
        return 3

    monkeypatch.setattr("tracoco.api.projects.fill_store", prepare)
    code, out, _ = run(capsys, monkeypatch, "prepare", project.root, *options)
    assert (code, "3 cases in" in out, asked) == (0, True, [workers])


def test_the_table_is_shown_though_the_network_cannot_take_the_crop(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plan(
        project.plan_file,
        project.load_plan().model_copy(update={"crop": (15, 16, 16), "strides": ()}),
    )
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--explain", "--json")
    row, time = json.loads(out)["reasons"][-2:]
    assert (time["name"], time["value"]) == ("time of a training", "unknown")
    assert (code, row["name"], row["value"]) == (0, "memory of a step", "none")
    assert "15" in row["why"]


def test_the_table_shows_what_more_memory_changes(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--explain", "--json")
    rows = json.loads(out)["growth"]
    assert (code, [row["memory_gb"] for row in rows]) == (0, [8, 24, 80])
    keys = ["memory_gb", "crop", "filters", "batch", "levels", "precision", "step_gb"]
    assert list(rows[0]) == keys
    # Scans are small: all of it fits into the smallest GPU.
    assert all(row["crop"] == [16, 16, 20] and row["filters"] == 48 for row in rows)
    assert all(row["batch"] == [8, 8] and 0 < row["step_gb"] < 1 for row in rows)


def test_a_plan_is_made_for_the_machine_that_is_named(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("plan", project.root, "--redo", "--for", "gpu")
    code, _, err = run(capsys, monkeypatch, *words)
    assert (code, "add e.g. --memory-gb 24" in err) == (2, True)
    code, out, _ = run(capsys, monkeypatch, *words, "--memory-gb", 8)
    assert (code, "filters: 16 -> 48" in out, "steps: 2000 -> 15000" in out) == (0, True, True)
    assert project.load_plan().precision == "bf16"
    code, out, _ = run(capsys, monkeypatch, "plan", project.root, "--redo", "--for", "cpu")
    assert (code, "filters: 48 -> 16" in out) == (0, True)
