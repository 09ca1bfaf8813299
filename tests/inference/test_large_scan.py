"""A large CT with many classes stays within 8 GB, from its file to the label's."""

import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from tracoco.inference.prediction import MAPS
from tracoco.scans.reader import read_grid

SHAPE = (512, 512, 900)
LIMIT_GB = 8.0
SCRIPT = """
import sys, threading, time
from pathlib import Path
import torch
from torch import nn
from tracoco.config import InferenceConfig
from tracoco.inference.predictor import Predictor
from tracoco.methods.method import Method
from tracoco.project.plan import Plan

class Levels(Method):
    "Class by brightness; 14 of them."
    def forward(self, batch, step):
        raise NotImplementedError
    def inference_network(self):
        return nn.Identity()
    def trained_networks(self):
        return []
    def predict_members(self, crops):
        return self.predict(crops), self.predict(crops)
    def predict(self, crops):
        middles = (torch.arange(14) / 13).reshape(1, 14, 1, 1, 1)
        return (-200 * (crops - middles) ** 2).softmax(dim=1)

def watch():
    global peak
    while True:
        lines = Path("/proc/self/status").read_text().splitlines()
        held = next(line for line in lines if line.startswith("RssAnon"))
        peak = max(peak, int(held.split()[1]) / 1e6)
        time.sleep(0.02)

peak = 0.0
threading.Thread(target=watch, daemon=True).start()
spacing = float(sys.argv[3])
plan = Plan.model_validate({
    "dimensions": 3, "channels": 1, "label_values": tuple(range(14)),
    "class_names": tuple(map(str, range(14))), "slice_axis": None,
    "spacing_mm": (spacing,) * 3, "crop": (96, 96, 96),
})
config = InferenceConfig(overlap=0.0, batch=1)
predictor = Predictor(Levels(), plan, (96, 96, 96), config, torch.device("cpu"))
out, maps = Path(sys.argv[2]), sys.argv[4:]
prediction = predictor(Path(sys.argv[1]), maps=maps, folder=out.parent)
prediction.write(out)
for name in maps:
    prediction.write_map(name, out.with_name(f"{name}.nii.gz"))
print(peak)
"""


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Slices that get brighter from the first to the last."""
    path = tmp_path_factory.mktemp("large") / "scan.nii"
    voxels = np.broadcast_to(np.arange(SHAPE[2], dtype=np.int16), SHAPE)
    nib.save(nib.Nifti1Image(voxels, np.eye(4)), path)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(("spacing_mm", "maps"), [(1.0, ()), (1.5, ()), (1.0, MAPS)])
def test_a_large_scan_of_14_classes_fits(
    scan: Path, tmp_path: Path, spacing_mm: float, maps: tuple[str, ...]
) -> None:
    out = tmp_path / "label.nii"
    words = [sys.executable, "-c", SCRIPT, str(scan), str(out), str(spacing_mm), *maps]
    peak = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert peak < LIMIT_GB, f"{peak:.1f} GB"
    assert read_grid(out).shape == SHAPE
    label = np.asarray(nib.Nifti1Image.from_filename(out).dataobj)[::64, ::64]
    assert (np.diff(label.astype(int), axis=2) >= 0).all()
    assert label.min() == 0
    assert label.max() == 13
    for name in maps:
        about = nib.Nifti1Image.from_filename(tmp_path / f"{name}.nii.gz")
        assert about.shape == ((*SHAPE, 14) if name == "probability" else SHAPE)
