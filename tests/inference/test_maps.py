"""Maps beside the labels: what is in them, where they lie, and who leaves them alone."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import read_json
from tracoco.inference.predict import predict_scans
from tracoco.inference.prediction import MAPS
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.methods.method import evaluating
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.project.preprocess import to_network_grid
from tracoco.scans.reader import read_image, read_label
from tracoco.training.train import train

SETTINGS = ["training.steps=2", "data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0"]


@pytest.fixture(scope="module")
def pair(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two networks."""
    out = tmp_path_factory.mktemp("runs") / "pair"
    train(project, load_config(None, SETTINGS), out, device="cpu")
    return out


def scan_file(project: Project) -> Path:
    return project.load_cases()[0].images[0]


def load(path: Path) -> NDArray[np.float64]:
    return np.asarray(nib.Nifti1Image.from_filename(path).get_fdata())


def test_maps_agree_with_each_other_and_with_the_label(pair: Path, project: Project) -> None:
    predictor = Predictor.load(pair, device="cpu")
    found = predictor(scan_file(project), maps=MAPS)
    probability = found.maps["probability"].values
    assert probability.shape == (2, *found.label.shape)
    np.testing.assert_allclose(probability.sum(axis=0), 1, atol=1 / 255)
    sure = np.abs(probability[1] - 0.5) > 1 / 255
    assert sure.any()
    assert np.array_equal(found.label[sure] == 1, probability[1][sure] > 0.5)
    entropy = -(probability * np.log(np.clip(probability, 1e-9, 1))).sum(axis=0)
    np.testing.assert_allclose(found.maps["entropy"].values, entropy, atol=0.02)
    np.testing.assert_array_equal(predictor(scan_file(project)).label, found.label)


def test_disagreement_is_that_of_the_two_networks(pair: Path, project: Project) -> None:
    predictor = Predictor.load(pair, device="cpu")
    scan = read_image(scan_file(project))
    found = predictor(scan, maps=["disagreement"]).maps["disagreement"].values
    volume = torch.from_numpy(to_network_grid(scan.array, scan.spacing_mm, predictor.plan))
    with evaluating(predictor.method):

        def gap(crops: torch.Tensor) -> torch.Tensor:
            first, second = predictor.method.predict_members(crops)
            return (first[:, 1:] - second[:, 1:]).abs()  # of two classes both differ as much

        expected = predict_volume(gap, volume, predictor.window, predictor.config)[0]
    np.testing.assert_allclose(found, expected.numpy(), atol=1 / 500)
    assert found.max() > 0.01


def test_one_network_has_no_disagreement(run: Path, project: Project, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this run's method has one; save entropy"):
        predict_scans(
            run, scan_file(project), tmp_path / "out", maps=["disagreement"], device="cpu"
        )
    assert not (tmp_path / "out").exists()


def test_files_lie_on_the_scans_own_grid(pair: Path, project: Project, tmp_path: Path) -> None:
    source = nib.Nifti1Image.from_filename(scan_file(project))
    turned = source.as_reoriented(np.array([[2, -1], [0, 1], [1, -1]]))
    nib.save(turned, tmp_path / "turned.nii.gz")
    predict_scans(pair, tmp_path / "turned.nii.gz", tmp_path / "out", maps=MAPS, device="cpu")
    plain = Predictor.load(pair, device="cpu")(scan_file(project), maps=MAPS)
    (row,) = read_json(tmp_path / "out" / "predictions.json")["rows"]
    assert list(row["files"]) == list(MAPS)
    for name, file in row["files"].items():
        assert file == str(tmp_path / "out" / f"turned_{name}.nii.gz")
        image = nib.Nifti1Image.from_filename(file)
        assert image.get_data_dtype() == np.uint8
        assert image.shape[:3] == turned.shape
        np.testing.assert_allclose(image.affine, turned.affine)
        back = np.asarray(nib.as_closest_canonical(image).get_fdata())
        values = plain.maps[name].values
        expected = np.moveaxis(values, 0, 3) if values.ndim == 4 else values
        np.testing.assert_allclose(back, expected, atol=1e-6)
    # Our own reader takes a 4D file as channels.
    again = read_image(tmp_path / "out" / "turned_probability.nii.gz").array
    np.testing.assert_allclose(again, plain.maps["probability"].values, atol=1e-6)


def test_maps_are_not_scored(pair: Path, project: Project, tmp_path: Path) -> None:
    out, truth = tmp_path / "out", tmp_path / "truth"
    predict_scans(pair, scan_file(project), out, maps=["entropy"], device="cpu")
    truth.mkdir()
    label = next(case.label for case in project.load_cases() if case.id == "case000")
    assert label is not None
    (truth / "case000.nii.gz").write_bytes(label.read_bytes())
    rows = evaluate_predictions(out, truth).rows
    assert [row.case for row in rows] == ["case000"]


def test_a_map_that_is_missing_is_made_and_one_that_is_there_is_kept(
    pair: Path, project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def predict(*maps: str) -> dict[str, str]:
        predict_scans(pair, scan_file(project), out, maps=maps, device="cpu")
        files: dict[str, str] = read_json(out / "predictions.json")["rows"][0]["files"]
        return files

    assert predict() == {}
    assert list(predict("entropy")) == ["entropy"]
    made = (out / "case000_entropy.nii.gz").stat().st_mtime_ns
    assert list(predict()) == ["entropy"]  # nothing to do: the map stays, and stays listed
    assert list(predict("probability")) == ["entropy", "probability"]
    assert (out / "case000_entropy.nii.gz").stat().st_mtime_ns == made
    assert (
        read_label(out / "case000.nii.gz").array.shape
        == load(out / "case000_probability.nii.gz").shape[:3]
    )


def test_a_file_of_the_users_is_not_taken_for_a_map(
    pair: Path, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "case000_entropy.nii.gz").write_bytes(b"mine")
    with pytest.raises(UserError, match=r"case000_entropy\.nii\.gz exists and is no prediction"):
        predict_scans(pair, scan_file(project), tmp_path, maps=["entropy"], device="cpu")
    assert (tmp_path / "case000_entropy.nii.gz").read_bytes() == b"mine"


def test_an_array_has_no_file_to_write_a_map_on(pair: Path) -> None:
    predictor = Predictor.load(pair, device="cpu")
    found = predictor(np.zeros((16, 16, 16), np.float32), (1, 1, 2), maps=["entropy"])
    with pytest.raises(ValueError, match="no file's grid"):
        found.write_map("entropy", Path("nowhere.nii.gz"))
