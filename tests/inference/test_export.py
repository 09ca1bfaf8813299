"""Exported networks: they predict what the run predicts, and ONNX files do so without torch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from benchmarks.export_parity import NOT_NEEDED

from tracoco.api.deploy import export
from tracoco.api.predictions import predict
from tracoco.errors import UserError
from tracoco.files import read_json
from tracoco.inference import export as exporting
from tracoco.inference.export import Exported, Format
from tracoco.inference.portable import Array, load_onnx
from tracoco.inference.predictor import Predictor
from tracoco.project.folder import Project
from tracoco.scans.reader import read_label

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

WITHOUT_TORCH = f"""
import sys

class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {[*NOT_NEEDED.values()]}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, NotThere())
from tracoco.cli import main
main()
"""


def image(project: Project, number: int = 0) -> Path:
    return project.load_cases()[number].images[0]


@pytest.fixture(scope="module")
def onnx(run: Path, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    out = tmp_path_factory.mktemp("exported") / "balls.onnx"
    return export(run, format="onnx", out=out, scan=image(project))


def test_an_onnx_file_predicts_what_the_run_predicts(onnx: Exported) -> None:
    assert onnx.dynamic
    assert onnx.parity.crop_difference < 1e-5
    assert onnx.parity.scan_equal is not None
    assert onnx.parity.scan_equal >= 0.9999


def test_the_description_stands_in_the_file_and_beside_it(
    onnx: Exported, run: Path, project: Project
) -> None:
    beside = read_json(onnx.description_file)
    predictor, manifest = load_onnx(onnx.path)
    assert beside.pop("parity")["scan"] == str(image(project))
    assert predictor.description.model_dump(mode="json") == beside
    assert predictor.plan == Predictor.load(run).plan
    assert manifest.labels == {1: predictor.plan.class_names[1]}
    assert beside["window"] == [16, 16, 16]
    assert beside["orientation"] == "RAS+"


def test_without_torch_the_command_gives_the_same_labels(
    onnx: Exported, run: Path, project: Project, tmp_path: Path
) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    for number in range(3):
        shutil.copy(image(project, number), scans)
    words = ["predict", str(onnx.path), str(scans), str(tmp_path / "onnx")]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = predict(run, scans, tmp_path / "run", progress=False)
    assert len(found) == 3
    for case in found:
        own = read_label(case.prediction).array
        other = read_label(tmp_path / "onnx" / case.prediction.name).array
        assert (own == other).mean() >= 0.9999
        assert own.any()
    manifest = json.loads((tmp_path / "onnx" / "predictions.json").read_text())
    assert manifest["run"] == str(onnx.path)


def test_windows_larger_than_the_crop_are_those_of_the_run(
    run: Path, project: Project, tmp_path: Path
) -> None:
    wide = tmp_path / "wide"
    shutil.copytree(run, wide)
    settings = yaml.safe_load((wide / "config.yaml").read_text(encoding="utf-8"))
    settings["inference"]["window"] = "auto"
    (wide / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    found = export(wide, format="onnx", out=tmp_path / "wide.onnx", scan=image(project))
    own, (portable, _) = Predictor.load(wide, device="cpu"), load_onnx(found.path)
    shape = (26, 24, 20)
    assert own.cover(shape).window == (28, 24, 20)
    assert portable.description.cover(shape) == own.cover(shape)
    assert found.parity.scan_equal is not None
    assert found.parity.scan_equal >= 0.9999


def test_a_model_takes_no_options_of_runs(onnx: Exported, project: Project, tmp_path: Path) -> None:
    source = image(project)
    with pytest.raises(UserError, match="leave --checkpoint, --weights, --with"):
        predict(onnx.path, source, tmp_path, checkpoint="best", progress=False)
    with pytest.raises(UserError, match="labels alone, and no entropy"):
        predict(onnx.path, source, tmp_path, maps=["entropy"], progress=False)
    with pytest.raises(UserError, match=r"none\.onnx does not exist; write it with"):
        predict(tmp_path / "none.onnx", source, tmp_path, progress=False)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(UserError, match="is damaged or is no ONNX file"):
        predict(broken, source, tmp_path, progress=False)


def test_what_differs_from_the_run_is_not_kept(
    run: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = exporting.LOADERS["torchscript"]

    def off(path: Path) -> Any:
        network = original(path)

        def turned(crops: Array) -> Array:
            return np.flip(network(crops), axis=1)

        return turned

    monkeypatch.setitem(exporting.LOADERS, "torchscript", off)
    with pytest.raises(UserError, match="nothing was written"):
        export(run, format="torchscript", out=tmp_path / "model.ts", scan=image(project))
    assert list(tmp_path.iterdir()) == []


def test_a_run_outside_of_a_project_needs_a_scan(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give one with --scan"):
        export(run, format="torchscript", out=tmp_path / "model.ts")
    (tmp_path / "there.ts").touch()
    with pytest.raises(UserError, match=r"there\.ts already exists"):
        export(run, format="torchscript", out=tmp_path / "there.ts")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pt2", "torchscript", "monai-bundle"])
def test_other_formats_predict_what_the_run_predicts(
    kind: Format, run: Path, project: Project, tmp_path: Path
) -> None:
    found = export(run, format=kind, out=tmp_path / "model", scan=image(project))
    assert found.dynamic
    assert found.parity.crop_difference < 1e-5
    assert (found.parity.scan_equal or 0) >= 0.9999
