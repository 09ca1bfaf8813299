"""`tracoco init` as it is typed."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from samples import write_balls, write_scan
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.project.folder import Project


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["init", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_balls(tmp_path / "scans", labelled=4, unlabelled=1)


def test_it_says_what_it_took_and_what_comes_next(data: Path, tmp_path: Path) -> None:
    out = run(data, "-o", tmp_path / "p", "--validation", 1, "--hide-labels", 2)
    assert "layout: images-labels" in out
    assert "note: 1 labels are hidden" in out
    assert "2 labelled, 2 unlabelled, 1 validation, 0 test cases" in out
    project = tmp_path / "p"
    assert f"next: tracoco check {project}, or at once tracoco prepare {project}" in out


def test_a_dry_run_prints_the_pairing_and_writes_nothing(data: Path, tmp_path: Path) -> None:
    out = run(data, "-o", tmp_path / "p", "--dry-run", "--group-pattern", r"case(\d\d)")
    line = next(line for line in out.splitlines() if line.startswith("case001"))
    assert line.split() == [
        "case001",
        "images/case001.nii.gz",
        "labels/case001.nii.gz",
        "00",
        "labelled",
    ]
    assert re.search(r"case004 +images/case004.nii.gz +- +00 +unlabelled", out)
    assert not (tmp_path / "p").exists()
    assert run(data, "--dry-run").count("images/case") == 5


def test_json_is_one_object(data: Path, tmp_path: Path) -> None:
    shown = json.loads(run(data, "--dry-run", "--json", "--hide-labels", 3))
    assert shown["layout"] == "images-labels"
    assert [(row["part"], row["hidden"]) for row in shown["cases"]] == [
        *[("labelled", False)] * 3,
        ("unlabelled", True),
        ("unlabelled", False),
    ]
    made = json.loads(run(data, "-o", tmp_path / "p", "--json"))
    assert made["project"] == str(tmp_path / "p")
    assert len(made["cases"]) == 5


def test_an_update_says_what_changed(data: Path, tmp_path: Path) -> None:
    run(data, "-o", tmp_path / "p", "--test", 1)
    nothing = run(data, "-o", tmp_path / "p", "--update")
    assert "0 added, 0 newly labelled, 5 unchanged" in nothing
    write_scan(data / "images" / "new.nii.gz", np.random.default_rng(9).normal(size=(26, 24, 20)))
    dry = run(data, "-o", tmp_path / "p", "--update", "--dry-run")
    assert re.search(r"new +images/new.nii.gz +- +unlabelled +added", dry)
    assert "new" not in Project(tmp_path / "p").load_splits().unlabelled
    out = run(data, "-o", tmp_path / "p", "--update")
    assert "1 added, 0 newly labelled, 5 unchanged" in out
    assert "new" in Project(tmp_path / "p").load_splits().unlabelled


def test_the_layout_of_an_update_is_that_of_the_project(data: Path, tmp_path: Path) -> None:
    run(data, "-o", tmp_path / "p", "--layout", "images-labels")
    (data / "dataset.json").write_text("{}")
    (data / "images").rename(data / "imagesTr")
    (data / "labels").rename(data / "labelsTr")
    run(data, "-o", tmp_path / "p", "--update")
    assert Project(tmp_path / "p").load_origin().layout == "images-labels"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "where to"),
        (("-o", "p", "--paper-split", "la", "--test", 1), "--paper-split names all cases"),
        (("-o", "p", "--paper-data", "la", "--test", 1), "--paper-data names all cases"),
        (
            ("-o", "p", "--paper-data", "la", "--layout", "csv"),
            "--paper-data knows files and split",
        ),
        (("-o", "p", "--partial"), "belong to --paper-data; add it"),
        (("-o", "p", "--update", "--test", 1), "leave out --test, or edit"),
        (("-o", "p", "--update", "--for", "gpu"), "leave out --for, or edit"),
        (("-o", "p", "--for", "gpu"), "has no GPU to ask for its memory"),
        (("-o", "p", "--update"), "is not a project folder"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    data: Path, options: tuple[object, ...], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        run(data, *options)


def test_a_part_of_a_recipes_data_is_marked(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("06SR5RBREL16DQ6M8LWS", "0RZDK210BSMWAA6467LU"):
        folder = tmp_path / "la" / name
        image = random.normal(size=(12, 12, 12)).astype(np.float32)
        folder.mkdir(parents=True)
        write_nrrd(folder / "lgemri.nrrd", image)
        write_nrrd(folder / "laendo.nrrd", (image > 0).astype(np.uint8) * 255)
    with pytest.raises(UserError, match="--partial"):
        run(tmp_path / "la", "-o", tmp_path / "p", "--paper-data", "la")
    assert not (tmp_path / "p").exists()
    out = run(tmp_path / "la", "-o", tmp_path / "p", "--paper-data", "la", "--partial")
    assert "layout: paper data la" in out
    assert "results will say: not the paper's data: 2 of its 100 scans" in out
    project = Project(tmp_path / "p")
    plan = project.load_plan()
    assert (plan.label_values, plan.class_names) == ((0, 255), ("background", "left atrium"))
    assert plan.spacing_mm == (0.625, 0.625, 0.625)
    assert "2 of its 100" in project.load_origin().watermark
    with pytest.raises(UserError, match="was made with paper data la, whose cases are fixed"):
        run(tmp_path / "la", "-o", tmp_path / "p", "--update")


def write_nrrd(path: Path, array: np.ndarray) -> None:
    kind = {"float32": "float", "uint8": "uint8"}[str(array.dtype)]
    sizes = " ".join(map(str, array.shape))
    header = (
        f"NRRD0004\ntype: {kind}\ndimension: 3\nspace: left-posterior-superior\nsizes: {sizes}\n"
        "space directions: (0.625,0,0) (0,0.625,0) (0,0,0.625)\nendian: little\nencoding: raw\n"
        "space origin: (0,0,0)\n\n"
    )
    path.write_bytes(header.encode() + array.tobytes(order="F"))


def test_a_project_is_planned_for_the_machine_that_is_named(data: Path, tmp_path: Path) -> None:
    out = run(data, "-o", tmp_path / "p", "--for", "gpu", "--memory-gb", 24)
    assert "48 filters, 15000 steps; edit" in out
    plan = Project(tmp_path / "p").load_plan()
    assert (plan.filters, plan.precision) == (48, "bf16")
