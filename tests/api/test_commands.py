"""The public Python functions do what the commands of their names do."""

import inspect
import subprocess
import sys
from html import escape
from pathlib import Path
from threading import Thread
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
import typer.main
from samples import write_balls

import tracoco as tc
from tracoco.cli import app
from tracoco.inference.prediction import wanted_maps

SETTINGS = {
    "training.steps": 4,
    "data.crop": [16, 16, 16],
    "network.filters": 4,
    "data.workers": 0,
}


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("api") / "scans"
    write_balls(root, labelled=4, unlabelled=2)
    return root


@pytest.fixture(scope="module")
def run(scans: Path) -> tc.Run:
    """From scans to a trained run with strings for paths."""
    project = str(scans.parent / "heart")
    result = tc.init(str(scans), project, test=1, progress=False)
    assert result.project is not None
    assert result.project.root == Path(project)
    assert tc.prepare(project, progress=False).store_root.is_dir()
    return tc.train(project, settings=SETTINGS, progress=False)


def test_a_run_knows_its_folder_and_settings(run: tc.Run) -> None:
    assert run.folder.name == "tracoco-seed0"
    assert run.steps == run.settings.training.length == 4
    assert run.signal == 0
    assert tc.Run.load(str(run.folder)).settings == run.settings


def test_a_run_predicts_evaluates_and_reports(run: tc.Run, scans: Path) -> None:
    project = scans.parent / "heart"
    out = run.folder / "predictions" / "test"
    (case,) = run.predict(str(project), str(out), progress=False)
    assert case.prediction.is_file()
    scores = tc.evaluate(str(out), project)
    (found,) = run.scores
    assert found.evaluation == scores  # the file holds the same numbers
    assert len(found.cases) == len({row.case for row in scores.rows}) == 1
    (row,) = tc.compare([run]).rows
    assert row.dice is not None
    assert run.report().read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"{row.dice:.1f} %" in run._repr_html_()


def test_a_predictor_takes_images_of_other_libraries(run: tc.Run, scans: Path) -> None:
    predictor = run.predictor(device="cpu")
    path = next(iter(sorted((scans / "images").iterdir())))
    image = nib.Nifti1Image.from_filename(path)
    from_file = predictor(str(path))
    from_image = predictor(image)
    np.testing.assert_array_equal(from_image.label, from_file.label)
    assert from_image.on_grid().shape == image.shape
    canonical = nib.as_closest_canonical(image)
    tensor = torch.from_numpy(canonical.get_fdata(dtype=np.float32))
    from_tensor = predictor(tensor, canonical.header.get_zooms())
    np.testing.assert_array_equal(from_tensor.label, from_file.label)


def test_a_run_predicts_a_scan_in_memory(run: tc.Run, scans: Path) -> None:
    path = next(iter(sorted((scans / "images").iterdir())))
    image = nib.as_closest_canonical(nib.Nifti1Image.from_filename(path))
    expected = run.predictor()(path).label
    voxels = image.get_fdata(dtype=np.float32)
    spacing = [float(side) for side in image.header.get_zooms()]
    for found in (
        run.predict(str(path)),
        run.predict(path),
        run.predict(image),
        run.predict(voxels, spacing_mm=spacing),
        run.predict(torch.from_numpy(voxels), spacing_mm=spacing, device="cpu"),
    ):
        assert isinstance(found, tc.Prediction)
        np.testing.assert_array_equal(found.label, expected)
    assert set(run.predict(path, maps=["entropy"]).maps) == {"entropy"}
    with pytest.raises(tc.UserError, match="a Nifti1Image is not written by its path"):
        run.predict(image, scans.parent / "label.nii.gz")


def test_a_project_stands_for_its_test_set(run: tc.Run, tmp_path: Path) -> None:
    project = tc.Project(run.folder.parents[1])
    (case,) = tc.predict(run, project, tmp_path, progress=False)
    assert case.case in project.load_splits().test
    assert {row.case for row in tc.evaluate(tmp_path, project).rows} == {case.case}
    assert len(tc.context(run, project, shifts=1, progress=False).rows) == 1
    assert tc.compare(run.folder) == tc.compare([run])


def test_a_training_runs_outside_the_main_thread(run: tc.Run) -> None:
    project, found = run.folder.parents[1], list[tc.Run]()
    out = run.folder.parent / "thread"

    def work() -> None:
        found.append(tc.train(project, settings=SETTINGS, out=out, progress=False))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found[0].steps == 4


def test_a_wrong_setting_is_told_as_on_the_command_line(scans: Path) -> None:
    with pytest.raises(tc.UserError, match=r"'training\.step' is not a setting; did you mean"):
        tc.train(scans.parent / "heart", settings={"training.step": 4}, progress=False)
    with pytest.raises(tc.UserError, match="both say how long the run is"):
        tc.train(scans.parent / "heart", settings={"training.steps": 4}, minutes=1)
    with pytest.raises(tc.UserError, match=r"'training\.step' is not a setting; did you mean"):
        tc.Config(training={"step": 4})  # type: ignore[arg-type]  # as a dict is taken too
    with pytest.raises(tc.UserError, match=r"demo: .* did you mean .steps."):
        tc.load_config("demo", ["training.step=4"])
    assert tc.load_config() == tc.Config()


def test_numbers_of_numpy_are_settings(run: tc.Run) -> None:
    changed = {**SETTINGS, "training.steps": np.int64(2)}
    found = tc.train(
        run.folder.parents[1], settings=changed, out=run.folder.parent / "numpy", progress=False
    )
    assert found.settings.training.steps == found.steps == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": "bst"}, "checkpoint 'bst' does not exist; did you mean 'best'"),
        ({"weights": "rw"}, "weights 'rw' does not exist; did you mean 'raw'"),
        ({"maps": ["entropi"]}, "map 'entropi' does not exist; did you mean 'entropy'"),
        ({"shard": (3, 2)}, "--shard 3/2 is no part"),
    ],
)
def test_a_wrong_choice_is_refused(
    run: tc.Run, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(tc.UserError, match=message):
        run.predict(run.folder.parents[1], tmp_path, progress=False, **options)


def test_a_plan_for_an_unknown_device_is_refused(run: tc.Run) -> None:
    with pytest.raises(tc.UserError, match="device 'gpuu' does not exist; did you mean 'gpu'"):
        tc.plan(run.folder.parents[1], redo=True, device="gpuu", memory_gb=8)  # type: ignore[arg-type]  # on purpose


COMMANDS = {
    "init": "init",
    "check": "check",
    "plan": "plan",
    "prepare": "prepare",
    "train": "train",
    "self-train": "self_train",
    "predict": "predict",
    "evaluate": "evaluate",
    "context": "context",
    "export": "export",
    "tune": "tune",
    "view": "view",
    "report": "report",
    "compare": "compare",
    "cross-validate": "cross_validate",
    "import": "import_checkpoint",
    "demo": "run_demo",
    "benchmark": "benchmark",
    "paper": "paper",
    "submit": "submit",
    "jobs": "jobs",
    "next": "next_scans",
    "update": "update",
    "serve": "serve",
    "doctor": "doctor",
}
"""The public function of each command."""
RENAMED = {
    ("train", "overrides"): "settings",
    ("self-train", "overrides"): "settings",
    ("predict", "save"): "maps",
    ("export", "format_"): "format",
    ("paper", "overrides"): "settings",
    ("update", "overrides"): "settings",
}
"""Options that Python has as lists of values and not as text."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_function_has_every_option_of_its_command_with_the_same_default(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]  # a group of commands
    parameters = inspect.signature(getattr(tc, COMMANDS[name])).parameters
    options = [
        option
        for option in command.params
        if option.name not in ("as_json", "help") and not getattr(option, "hidden", False)
    ]
    for option in options:
        parameter = parameters[RENAMED.get((name, option.name), option.name)]
        # Without a name, `tracoco paper` lists what `tc.list_paper` returns.
        if option.required or (name, option.name) == ("paper", "name"):
            assert parameter.default is inspect.Parameter.empty, option.name
        elif (name, option.name) == ("predict", "save"):
            assert parameter.default == wanted_maps(option.default)
        else:
            assert (parameter.default or None) == (option.default or None), option.name
    # A function has no option that its command lacks, but for whether progress is shown.
    names = {RENAMED.get((name, option.name), option.name) for option in options}
    assert set(parameters) - names <= {"progress"}


def test_every_command_has_its_function_or_its_reason() -> None:
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # a group of commands
    # The lists show what `tc.list_methods` and `tc.list_presets` return.
    assert commands - set(COMMANDS) == {"methods", "presets"}


def test_a_plan_is_shown_explained_and_made_again(run: tc.Run) -> None:
    project = run.folder.parents[1]
    shown = tc.plan(str(project))
    assert shown.plan == tc.Project(project).load_plan()
    assert (shown.changes, shown.explanation) == (None, None)
    assert f"<td style='text-align:left'>{list(shown.plan.crop)}</td>" in shown._repr_html_()
    assert shown._repr_html_() == shown.plan._repr_html_()
    again = tc.plan(project, redo=True, explain=True, progress=False)
    assert again.changes == ()
    assert again.explanation is not None
    assert {row.name for row in again.explanation.reasons} >= {"crop", "time of a training"}
    assert "median of the scans" in again._repr_html_()


def test_a_check_lists_problems_and_estimates_a_training(run: tc.Run, scans: Path) -> None:
    checked = tc.check(run.folder.parents[1], progress=False)
    assert checked.training is not None
    assert checked.training.training_seconds > 0
    problems = [row.problem for row in checked.rows]
    assert all(escape(problem) in checked._repr_html_() for problem in problems)
    assert tc.check(scans, progress=False).training is None  # there is no plan yet


def test_the_front_door_lists_its_names_and_imports_nothing_heavy() -> None:
    assert {"init", "train", "Run", "Predictor", "register_method"} <= set(dir(tc))
    for name in dir(tc):
        assert getattr(tc, name) is not None
    program = (
        "import sys, tracoco; dir(tracoco); sys.exit(bool({'torch', 'numpy'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_lists_are_data() -> None:
    assert {"la-cpu", "paper"} <= {entry.name for entry in tc.list_presets()}
    (entry,) = tc.list_presets(["la-8"])
    assert entry.settings["data"]["labelled"] == 8
    kinds = {entry.name: entry.kind for entry in tc.list_paper()}
    assert kinds["component-ablation"] == "table"
    assert kinds["qualitative"] == "figure"


def test_the_paper_is_shown_as_published_without_a_project() -> None:
    shown = tc.paper("component-ablation", progress=False)
    assert shown.values["rows"]
    with pytest.raises(tc.UserError, match="did you mean 'component-ablation'"):
        tc.paper("component-ablations", progress=False)


def test_a_grid_names_the_data_set_whose_project_is_missing(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "title: a\ndatasets: {heart: {labelled: [2]}}\nrows: {supervised: {}}\nseeds: [0]\n"
    )
    with pytest.raises(tc.UserError, match=r"--project heart=FOLDER"):
        tc.benchmark(grid, {}, progress=False)
    with pytest.raises(tc.UserError, match="is no project"):
        tc.benchmark(grid, {"heart": tmp_path / "none"}, progress=False)
