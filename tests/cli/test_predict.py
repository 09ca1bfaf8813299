"""`tracoco predict` on what people really have: other formats, series, zips, many machines."""

from importlib.util import find_spec
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from pydicom import dcmread
from samples import write_scan
from scans.dicom_samples import pack, write_series
from typer.testing import CliRunner, Result

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.scans import dicom, dicom_seg
from tracoco.scans.reader import read_grid, read_label, write_label
from tracoco.training.train import train

SHORT = ["training.steps=1", "network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]"]
SLICES = np.random.default_rng(0).integers(0, 500, (18, 20, 22)).astype(np.int16)


@pytest.fixture(scope="module")
def run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train(project, load_config(None, SHORT), out, device="cpu")
    return out


def predict(run: Path, *words: object) -> Result:
    return CliRunner().invoke(app, ["predict", str(run), *map(str, words), "--device", "cpu"])


def refused(run: Path, *words: object) -> str:
    result = predict(run, *words)
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


def test_a_folder_of_all_sorts(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    series = write_series(source / "series", SLICES)
    pack(series, source / "packed.zip")
    write_scan(source / "plain.nii", np.zeros((20, 18, 12), np.float32))
    grid = read_grid(source / "plain.nii").grid
    for name in ("other.nrrd", "another.mha"):
        write_label(source / name, np.arange(20 * 18 * 12).reshape(20, 18, 12) % 251, grid)
    result = predict(run, source, tmp_path / "out", "--save", "label,entropy")
    assert result.exit_code == 0, result.output
    assert "5 predictions in" in result.stdout
    for name in ("series", "packed.zip", "plain.nii", "other.nrrd", "another.mha"):
        about = read_grid(source / name)
        for suffix in ("", "_entropy"):
            found = read_grid(tmp_path / "out" / f"{name.split('.')[0]}{suffix}.nii.gz")
            assert found.grid.shape == about.grid.shape
            np.testing.assert_allclose(found.affine, about.affine, atol=1e-4)


@pytest.mark.parametrize("suffix", [".nrrd", ".mha", ".nii", ".nii.gz"])
def test_the_name_of_the_label_chooses_its_format(run: Path, tmp_path: Path, suffix: str) -> None:
    source = write_series(tmp_path / "series", SLICES)
    out = tmp_path / f"label{suffix}"
    assert predict(run, source, out).exit_code == 0
    label, scan = read_label(out), dicom.read_image(source)
    assert label.array.shape == scan.array.shape[1:]
    np.testing.assert_allclose(label.affine, scan.affine, atol=1e-4)
    assert set(np.unique(label.array)) <= {0, 1}


def test_a_series_gets_a_dicom_segmentation(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    source = write_series(tmp_path / "series", SLICES)
    result = predict(run, source, tmp_path / "out", "--dicom-seg")
    assert result.exit_code == 0, result.output
    plain = read_label(tmp_path / "out" / "series.nii.gz")
    assert plain.array.any()
    (tmp_path / "out" / "series.dcm").rename(source / "segmentation.dcm")
    assert np.array_equal(read_label(source).array, plain.array)


def test_a_series_gets_contours(run: Path, tmp_path: Path) -> None:
    source = write_series(tmp_path / "series", SLICES)
    result = predict(run, source, tmp_path / "out", "--rtstruct")
    assert result.exit_code == 0, result.output
    plain = read_label(tmp_path / "out" / "series.nii.gz")
    assert plain.array.any()
    (tmp_path / "out" / "series_contours.dcm").rename(source / "contours.dcm")
    assert np.array_equal(read_label(source).array, plain.array)


def test_a_series_that_no_object_can_belong_to_is_told_before_any_prediction(
    run: Path, tmp_path: Path
) -> None:
    source = write_series(tmp_path / "series", SLICES)
    for file in source.iterdir():
        image = dcmread(file)
        del image.StudyInstanceUID
        image.save_as(file)
    assert "has no StudyInstanceUID" in refused(run, source, tmp_path / "out", "--rtstruct")
    assert not (tmp_path / "out").exists()


def test_a_segmentation_needs_a_series_and_the_extra(
    run: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = project.load_cases()[0].images[0]
    if find_spec("highdicom"):
        assert "is no DICOM series" in refused(run, image, tmp_path / "out", "--dicom-seg")
    monkeypatch.setattr(dicom_seg, "find_spec", lambda _: None)
    assert "pip install 'tracoco[dicom]'" in refused(run, image, tmp_path / "out", "--dicom-seg")
    assert not (tmp_path / "out").exists()


def test_channel_files_are_paired(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        both = random.normal(size=(20, 20, 12, 2)).astype(np.float32)
        write_scan(tmp_path / "data" / "images" / f"{name}.nii.gz", both)
        label = (both[..., 0] > 0).astype(np.uint8)
        write_scan(tmp_path / "data" / "labels" / f"{name}.nii.gz", label)
        for channel in range(2):
            file = tmp_path / "in" / f"{name}_{channel:04d}.nii.gz"
            write_scan(file, both[..., channel])
    project = init_project(tmp_path / "data", tmp_path / "project")
    prepare(project)
    run = tmp_path / "run"
    train(project, load_config(None, ["method.name=supervised", *SHORT]), run, device="cpu")
    assert predict(run, tmp_path / "in", tmp_path / "parts").exit_code == 0
    assert predict(run, tmp_path / "data" / "images", tmp_path / "whole").exit_code == 0
    for name in ("a", "b", "c"):
        files = [tmp_path / folder / f"{name}.nii.gz" for folder in ("parts", "whole")]
        parts, whole = (np.asarray(nib.Nifti1Image.from_filename(f).dataobj) for f in files)
        assert np.array_equal(parts, whole)
    assert "has 1 channels, the plan 2" in refused(
        run, tmp_path / "in" / "a_0000.nii.gz", tmp_path / "single"
    )


def test_shards_and_what_is_there_already(run: Path, project: Project, tmp_path: Path) -> None:
    images, out = project.load_cases()[0].images[0].parent, tmp_path / "out"
    assert "3 predictions in" in predict(run, images, out, "--shard", "1/3").stdout
    result = predict(run, images, out)
    assert "8 predictions in" in result.stdout
    assert "3 of 8 are there already; --redo makes them again" in result.stderr
    assert "already" not in predict(run, images, out, "--redo").stderr
    assert "--shard 4/3 is no part" in refused(run, images, out, "--shard", "4/3")
    assert "'heat' is unknown" in refused(run, images, out, "--save", "heat")
