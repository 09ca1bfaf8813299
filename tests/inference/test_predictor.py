from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from samples import write_balls

from tracoco.errors import UserError
from tracoco.inference.predict import predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.project.preprocess import raw_values, to_network_grid
from tracoco.scans.reader import read_image
from tracoco.training.train import train


def scan(project: Project) -> Path:
    return project.load_cases()[0].images[0]


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
    found = Predictor.load(run, device="cpu")(case.images[0]).label == 1
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


def test_network_1_alone_predicts(project: Project, tmp_path: Path) -> None:
    settings = ["training.steps=2", "data.crop=[16, 16, 16]", "network.filters=4"]
    run = tmp_path / "run"
    train(project, load_config(None, [*settings, "data.workers=0"]), run, device="cpu")
    checkpoint = torch.load(run / "last.pt", weights_only=True)
    expected = Predictor.load(run, device="cpu")
    crops = torch.rand(1, 1, 16, 16, 16)
    for network, matters in ((0, True), (1, False)):
        spoilt = {
            kind: {
                name: torch.ones_like(value) if name.startswith(f"networks.{network}.") else value
                for name, value in checkpoint[kind].items()
            }
            for kind in ("method", "averaged")
        }
        torch.save(checkpoint | spoilt, run / "last.pt")
        found = Predictor.load(run, device="cpu")
        with torch.no_grad():
            same = torch.equal(found.method.predict(crops), expected.method.predict(crops))
        assert same != matters


def test_in_2d_a_volume_is_predicted_slice_by_slice_and_stacked(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=2, unlabelled=1)
    project = init_project(data, tmp_path / "project", dimensions=2)
    prepare(project)
    settings = ["method.name=supervised", "training.steps=40", "network.filters=8"]
    config = load_config(None, [*settings, "data.crop=[16, 16]", "data.workers=0"])
    train(project, config, tmp_path / "run", device="cpu")
    predictor = Predictor.load(tmp_path / "run", device="cpu")
    scan = read_image(project.load_cases()[0].images[0])
    volume = torch.from_numpy(to_network_grid(scan.array, scan.spacing_mm, predictor.plan))
    with torch.no_grad():
        slices = [
            predict_volume(predictor.method.predict, one, predictor.window, predictor.config)
            for one in volume.split(1, dim=1)
        ]
    assert len(slices) > 10
    classes = torch.cat(slices, dim=1).argmax(dim=0)  # nothing is resampled
    stacked = classes.numpy().transpose(np.argsort(predictor.plan.stored_axes))
    label = predictor(scan).label
    assert 0 < label.mean() < 1
    np.testing.assert_array_equal(label, raw_values(stacked, predictor.plan))
    # A slice does not know its neighbours: emptying all others changes nothing in it.
    middle = volume.shape[1] // 2
    alone = torch.zeros_like(volume)
    alone[:, middle] = volume[:, middle]
    with torch.no_grad():
        prediction = predict_volume(
            predictor.method.predict, alone, predictor.window, predictor.config
        )
    torch.testing.assert_close(prediction[:, middle : middle + 1], slices[middle])


def test_a_prediction_is_cleaned_on_request(run: Path, project: Project) -> None:
    prediction = Predictor.load(run, device="cpu")(scan(project))
    prediction.label[2:8, 2:8, 2:8] = 1
    prediction.label[25, 23, 19] = 1
    cleaned = prediction.without_small_components()
    assert (cleaned.label[25, 23, 19], prediction.label[25, 23, 19]) == (0, 1)
    assert cleaned.scan is prediction.scan
