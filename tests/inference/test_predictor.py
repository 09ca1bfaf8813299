from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

from tracoco.errors import UserError
from tracoco.inference.predictions import predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.project.folder import Project


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


def test_an_array_with_a_hole_is_refused_and_the_callers_generator_is_left_alone(run: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    predictor = Predictor.load(run, device="cpu")
    assert torch.equal(torch.rand(1), expected)
    array = np.zeros((16, 16, 16))
    array[3, 3, 3] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        predictor(array, (1, 1, 2))
