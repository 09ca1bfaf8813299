"""Each form of the paper's data, complete and under its real names, from `init` to a report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.paper.download_samples import (
    SHAPE,
    write_acdc,
    write_brats,
    write_community,
    write_la,
    write_pancreas,
)
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.scans.reader import read_image
from tracoco.studies.paper.case_lists import case_list
from tracoco.studies.paper.downloads import CROPPED

WITHDRAWN = (25, 70)
STILL_THERE = [number for number in range(1, 83) if number not in WITHDRAWN]
NO_UNLABELLED = "no unlabelled cases, which most methods learn from"
NO_SPACING = "does not say how large its voxels are; 1 mm is assumed"
SMALL = (
    "network.name=light-unet",
    "network.filters=2",
    "data.crop=[16, 8, 8]",
    "data.workers=0",
    "inference.stride=null",
)

Write = Callable[[Path], Path]
Counts = tuple[int, int, int]
"""Labelled, validation, test."""


def tracoco(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def check(project: Path) -> set[str]:
    """The problems that `check` finds, except those of scans that are as small as these."""
    rows = json.loads(tracoco("check", project, "--json", code=1))["rows"]
    assert {row["severity"] for row in rows} == {"warning"}
    return {row["problem"] for row in rows if "no room to translate" not in row["problem"]}


def made(write: Write, recipe: str, root: Path, *options: str) -> Project:
    """The project of a download: through `init`, `check` and `prepare`, without --partial."""
    tracoco("init", write(root / "data"), "--paper-data", recipe, "-o", root / "project", *options)
    expected = {NO_UNLABELLED} | ({NO_SPACING} if any(root.rglob("*.h5")) else set())
    assert check(root / "project") == expected
    project = Project(root / "project")
    count = len(project.load_splits().ids)
    assert f"{count} cases in" in tracoco("prepare", project.root)
    return project


def counts(project: Project) -> Counts:
    splits = project.load_splits()
    assert splits.unlabelled == ()
    return len(splits.labelled), len(splits.validation), len(splits.test)


def withdrawn(root: Path) -> Path:
    return write_pancreas(root, STILL_THERE)


def complete(root: Path) -> Path:
    return write_pancreas(root, range(1, 83))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "recipe", "expected", "plan"),
    [
        (write_la, "la", (80, 0, 20), {"spacing_mm": (0.625,) * 3}),
        (complete, "pancreas", (62, 0, 20), {"spacing_mm": (1, 1, 1), "window": ((-125, 275),)}),
        (withdrawn, "pancreas", (61, 0, 19), {"spacing_mm": (1, 1, 1), "window": ((-125, 275),)}),
        (write_brats, "brats19", (250, 25, 60), {"spacing_mm": (1, 1, 1), "label_values": (0, 1)}),
        (write_acdc, "acdc", (140, 20, 40), {"dimensions": 2, "label_values": (0, 1, 2, 3)}),
    ],
)
def test_a_download_becomes_a_prepared_project(
    write: Write, recipe: str, expected: Counts, plan: dict[str, Any], tmp_path: Path
) -> None:
    project = made(write, recipe, tmp_path)
    assert counts(project) == expected
    found = project.load_plan()
    assert {name: getattr(found, name) for name in plan} == plan
    assert project.load_origin().watermark == ""
    for id_ in (project.load_splits().labelled[0], project.load_splits().test[-1]):
        case = Store(project.store_root).case(id_)
        image, label = np.asarray(case.image()), np.asarray(case.label())
        # The label lies on what is bright: by 100 of 200 or, in the window, by 100 of 400.
        assert image[0][label > 0].mean() > image[0][label == 0].mean() + 0.12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "expected", "mark"),
    [
        ("la", (80, 0, 20), CROPPED),
        ("pancreas", (62, 0, 20), CROPPED),
        ("brats19", (250, 25, 60), ""),
        ("acdc", (140, 20, 40), ""),
    ],
)
def test_the_communitys_files_become_a_prepared_project(
    recipe: str, expected: Counts, mark: str, tmp_path: Path
) -> None:
    project = made(lambda root: write_community(root, recipe), recipe, tmp_path)
    assert counts(project) == expected
    assert project.load_origin().watermark == mark
    assert project.load_plan().dimensions == (2 if recipe == "acdc" else 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "recipe", "start", "stop", "expected"),
    [
        # 70 mm are 7 voxels of 10 mm, 5 more than the label has: 2 before it, 3 behind; then 1.
        (write_la, "la", 6, 15, (80, 0, 20)),
        # 96 mm are 10 voxels, 8 more than the label has; then 2 (of 2.5) on each side.
        (complete, "pancreas", 3, 17, (62, 0, 20)),
    ],
)
def test_scans_cropped_by_their_label_are_smaller_and_all_results_say_so(
    write: Write, recipe: str, start: int, stop: int, expected: Counts, tmp_path: Path
) -> None:
    project = made(write, recipe, tmp_path, "--crop-by-label")
    assert counts(project) == expected
    assert project.load_origin().watermark == CROPPED
    case = project.load_cases()[0]
    image = read_image(case.images[0])
    assert image.array.shape[1:] == (stop - start, *SHAPE[1:])


@pytest.mark.slow
def test_a_cropped_download_is_trained_predicted_and_reported_with_its_mark(
    tmp_path: Path,
) -> None:
    project = made(write_la, "la", tmp_path, "--crop-by-label").root
    run, settings = tmp_path / "run", [word for name in SMALL for word in ("--set", name)]
    tracoco(
        *("train", project, "--out", run, "--preset", "la-8", "--device", "cpu"),
        *("--set", "training.steps=2", *settings),
    )
    out = run / "predictions" / "test"
    assert "20 predictions in" in tracoco("predict", run, project, out, "--device", "cpu")
    tracoco("evaluate", out, project)
    tracoco("report", run)
    assert sorted(file.name for file in out.glob("*.nii.gz")) == sorted(
        f"{name}.nii.gz" for name in case_list("la", "test")
    )
    splits = json.loads((run / "splits.json").read_text(encoding="utf-8"))
    assert splits["labelled"] == case_list("la", "train")[:8]
    assert len(splits["unlabelled"]) == 72
    for file in ("facts.json", "predictions/test/predictions.json", "predictions/test/scores.json"):
        assert CROPPED in (run / file).read_text(encoding="utf-8"), file
    assert CROPPED in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("write", "recipe", "lost", "count"),
    [
        (write_la, "la", "{}/lgemri.nrrd", "99 of the 100"),
        (lambda root: write_community(root, "acdc"), "acdc", "{}.h5", "199 of the 200"),
        (lambda root: write_community(root, "la"), "la", "{}/mri_norm2.h5", "99 of the 100"),
    ],
)
def test_a_missing_case_is_named_and_nothing_is_written(
    write: Write, recipe: str, lost: str, count: str, tmp_path: Path
) -> None:
    data, name = write(tmp_path / "data"), case_list(recipe, "train")[17]
    (file,) = data.rglob(lost.format(name))
    file.unlink()
    with pytest.raises(UserError, match=rf"has {count} scans of {recipe} .*missing: {name}\."):
        tracoco("init", data, "--paper-data", recipe, "-o", tmp_path / "project")
    assert not (tmp_path / "project").exists()
