from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from tracoco.config import load_config
from tracoco.errors import UserError
from tracoco.experiment import train
from tracoco.inference.predictions import planned_predictions, predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.project.folder import Project

SETTINGS = ["training.steps=40", "data.crop=[16, 16, 16]", "network.filters=8", "data.workers=0"]


@pytest.fixture(scope="module")
def run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short supervised run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(project, load_config(None, ["method.name=supervised", *SETTINGS]), out)
    return out


def scan(project: Project) -> Path:
    return project.load_cases()[0].image


def test_a_prediction_lies_on_the_scans_own_grid(
    run: Path, project: Project, tmp_path: Path
) -> None:
    source = nib.Nifti1Image.from_filename(scan(project))
    # The same scan stored in another axis order and handedness.
    turned = source.as_reoriented(np.array([[2, -1], [0, 1], [1, -1]]))
    nib.save(turned, tmp_path / "turned.nii.gz")
    predict_scans(run, tmp_path / "turned.nii.gz", tmp_path / "label.nii.gz", device="cpu")
    label = nib.Nifti1Image.from_filename(tmp_path / "label.nii.gz")
    assert label.shape == turned.shape
    np.testing.assert_allclose(label.affine, turned.affine)
    plain = Predictor.load(run, device="cpu")(scan(project))
    assert plain.label.any()
    back = nib.as_closest_canonical(label).get_fdata()
    np.testing.assert_array_equal(back, plain.label)


def test_an_array_with_its_spacing_gives_what_its_file_gives(run: Path, project: Project) -> None:
    predictor = Predictor.load(run, device="cpu")
    image = nib.as_closest_canonical(nib.Nifti1Image.from_filename(scan(project)))
    array = image.get_fdata(dtype=np.float32)
    label = predictor(array, image.header.get_zooms()).label
    np.testing.assert_array_equal(label, predictor(scan(project)).label)
    with pytest.raises(ValueError, match="spacing_mm"):
        predictor(array)
    with pytest.raises(ValueError, match="no file's grid"):
        predictor(array, (1, 1, 2)).write(Path("nowhere.nii.gz"))


def test_the_network_has_learnt_the_ball(run: Path, project: Project) -> None:
    case = next(case for case in project.load_cases() if case.label)
    assert case.label is not None
    truth = np.asarray(nib.Nifti1Image.from_filename(case.label).dataobj) == 1
    found = Predictor.load(run, device="cpu")(case.image).label == 1
    assert 2 * (truth & found).sum() / (truth.sum() + found.sum()) > 0.5


def test_best_is_there_with_validation_cases_and_another_checkpoint_is_refused(run: Path) -> None:
    assert Predictor.load(run, checkpoint="best", device="cpu")
    (run / "best.pt").rename(run / "kept.pt")
    try:
        with pytest.raises(UserError, match="no validation cases; use last"):
            Predictor.load(run, checkpoint="best")
    finally:
        (run / "kept.pt").rename(run / "best.pt")


def test_a_scan_with_other_channels_is_refused_by_name(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.nii.gz"
    nib.save(nib.Nifti1Image(np.zeros((8, 8, 8, 2), dtype=np.float32), np.eye(4)), path)
    with pytest.raises(UserError, match=r"two\.nii\.gz has 2 channels"):
        Predictor.load(run, device="cpu")(path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        Predictor.load(tmp_path)


def test_what_goes_where(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("b.nii.gz", "a.nii", "notes.txt"):
        (images / name).touch()
    planned = planned_predictions(images, tmp_path / "out")
    assert [(case.case, case.prediction.name) for case in planned] == [
        ("a", "a.nii.gz"),
        ("b", "b.nii.gz"),
    ]
    single = planned_predictions(images / "a.nii", tmp_path / "x.nii.gz")
    assert single[0].prediction == tmp_path / "x.nii.gz"
    folder = planned_predictions(images / "a.nii", tmp_path / "out")
    assert folder[0].prediction == tmp_path / "out" / "a.nii.gz"


@pytest.mark.parametrize("content", [[], ["a.nii", "a.nii.gz"]])
def test_a_folder_without_scans_or_with_two_of_a_name_is_refused(
    tmp_path: Path, content: list[str]
) -> None:
    for name in content:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="holds"):
        planned_predictions(tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="does not exist"):
        planned_predictions(tmp_path / "nowhere", tmp_path / "out")
