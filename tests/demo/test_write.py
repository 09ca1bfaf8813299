from pathlib import Path

import pytest

from tracoco.demo import run as write
from tracoco.scans.reader import read_label


def test_the_seed_changes_the_scans_and_which_are_labelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "TEST", 1)
    folders = [write.write_phantoms(tmp_path / str(seed), seed) for seed in (0, 1)]
    labelled = [{path.name for path in (each.data / "labels").iterdir()} for each in folders]
    assert labelled[0] != labelled[1]
    assert all(len(names) == write.LABELLED + write.VALIDATION for names in labelled)
    first, second = (each.data / "images" / "phantom_000.nii.gz" for each in folders)
    assert first.read_bytes() != second.read_bytes()
    # What is shown is the truth, the same that the upper bound learns from.
    for name in labelled[0]:
        shown = read_label(folders[0].data / "labels" / name)
        assert (shown.array == read_label(folders[0].all_labels / name).array).all()
