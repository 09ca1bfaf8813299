"""The public Python functions do what the commands of their names do."""

import inspect
import subprocess
import sys
from pathlib import Path
from threading import Thread

import nibabel as nib
import numpy as np
import pytest
import torch
import typer.main
from samples import write_balls

import tracoco as tc
from tracoco.cli import app

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
    (row,) = tc.compare([run])
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


@pytest.mark.parametrize(
    "name", ["init", "check", "prepare", "train", "predict", "evaluate", "report", "context"]
)
def test_a_function_has_every_option_of_its_command(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]  # a group of commands
    options = {parameter.name for parameter in command.params} - {"as_json", "help"}
    renamed = {"overrides": "settings", "save": "maps"}
    wanted = {renamed.get(option, option) for option in options}
    assert wanted - set(inspect.signature(getattr(tc, name)).parameters) == set()


def test_the_front_door_lists_its_names_and_imports_nothing_heavy() -> None:
    assert {"init", "train", "Run", "Predictor", "register_method"} <= set(dir(tc))
    for name in dir(tc):
        assert getattr(tc, name) is not None
    program = (
        "import sys, tracoco; dir(tracoco); sys.exit(bool({'torch', 'numpy'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
