"""The whole way on real scans, one command a step; skipped where the scans are not."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from shared_data import shared_data

from tracoco.cli import main
from tracoco.project.folder import Project
from tracoco.scans.reader import read_grid, scans_in

SHORT = ("training.steps=20", "network.filters=4", "data.workers=0")
DATA: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    # Folder, further words for init, cases.
    "hippocampus": (("hippocampus",), ("--validation", "2", "--hide-labels", "10"), 220),
    "btcv": (("btcv_pancreas",), ("--validation", "1", "--hide-labels", "4"), 20),
    "la": (("la", "half"), ("--validation", "1", "--hide-labels", "8"), 80),
    "acdc": (("acdc", "half"), ("--dimensions", "2", "--hide-labels", "14"), 160),
    "brats19": (("brats19", "half"), ("--hide-labels", "10"), 60),
}


def tracoco(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["tracoco", *map(str, words)])
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_init_check_prepare_train_predict(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, words, count = DATA[name]
    data, project = shared_data(*place), tmp_path / "project"
    assert tracoco(monkeypatch, "init", data, "-o", project, *words) == 0
    assert tracoco(monkeypatch, "check", project) in (0, 1)
    assert tracoco(monkeypatch, "prepare", project) == 0
    splits = Project(project).load_splits()
    assert len(splits.ids) == count
    assert splits.unlabelled
    run = tmp_path / "run"
    changes = [word for change in SHORT for word in ("--set", change)]
    assert tracoco(monkeypatch, "train", project, "-o", run, "--device", "cpu", *changes) == 0

    case = next(each for each in Project(project).load_cases() if each.id in splits.unlabelled)
    out = tmp_path / "out"
    assert tracoco(monkeypatch, "predict", run, case.images[0], out, "--device", "cpu") == 0
    (label,) = scans_in(out)
    found, wanted = read_grid(label), read_grid(case.images[0])
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.affine, wanted.affine, atol=1e-4)
    values = set(np.unique(np.asarray(nib.load(label).dataobj)).tolist())
    assert values <= set(Project(project).load_plan().label_values)
