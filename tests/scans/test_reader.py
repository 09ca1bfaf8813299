from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.scans import reader


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a.nii.gz", "a"), ("a.b.nii", "a.b"), ("A.NII.GZ", "A"), ("x_0000.nii.gz", "x_0000")],
)
def test_the_suffix_tells_the_format(name: str, stem: str) -> None:
    assert reader.is_scan(Path(name))
    assert reader.scan_stem(Path(name)) == stem


@pytest.mark.parametrize("name", ["a.gz", "nii", "a.nii.txt", "dataset.json"])
def test_other_files_are_no_scans(name: str) -> None:
    assert not reader.is_scan(Path(name))


def test_an_unknown_suffix_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"a\.mha is of no known format; .*\.nii\.gz, \.nii"):
        reader.read_image(Path("a.mha"))


def test_what_is_written_is_read(save: Callable[..., Path], tmp_path: Path) -> None:
    voxels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = save(voxels, np.diag([-1, 2, -3, 1]))
    about, image = reader.read_grid(path), reader.read_image(path)
    assert about.shape == image.array.shape[1:]
    assert np.array_equal(about.affine, image.affine)
    label = (image.array[0] > 11).astype(np.uint8)
    reader.write_label(tmp_path / "label.nii", label, about.grid)
    assert np.array_equal(reader.read_label(tmp_path / "label.nii").array, label)
