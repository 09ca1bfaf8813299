import gzip
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from scans.itk_samples import TURNED, VOLUME

from tracoco.errors import UserError
from tracoco.scans import freesurfer
from tracoco.scans.scan import Grid, canonical_geometry, to_canonical


def write(path: Path, voxels: NDArray[Any] = VOLUME) -> Path:
    nibabel.save(nibabel.MGHImage(voxels.astype(np.float32), TURNED), path)
    return path


@pytest.mark.parametrize("suffix", [".mgz", ".mgh"])
def test_a_volume_lies_where_nibabel_puts_it(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}")
    about, scan = freesurfer.read_header(path), freesurfer.read_image(path)
    grid = Grid((2, 3, 4), TURNED)
    assert np.allclose(scan.affine, canonical_geometry(grid)[1], atol=1e-5)  # stored as float32
    assert np.array_equal(scan.array[0], to_canonical(VOLUME, grid))
    assert (about.shape, about.has_geometry) == (scan.array.shape[1:], True)


def test_frames_are_channels_until_they_are_many(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mgz", np.stack([VOLUME, 100 + VOLUME], axis=-1))
    assert freesurfer.read_image(path).array[1].min() == 100
    with pytest.raises(UserError, match="time series of 9 volumes"):
        freesurfer.read_header(write(tmp_path / "b.mgz", np.stack([VOLUME] * 9, axis=-1)))


def test_a_file_may_say_that_its_place_is_not_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mgh")
    content = bytearray(path.read_bytes())
    content[28:30] = b"\x00\x00"
    path.write_bytes(bytes(content))
    about = freesurfer.read_header(path)
    assert (about.has_geometry, about.spacing_mm) == (False, (1, 1, 1))


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mgh")
    path.write_bytes(path.read_bytes()[:300])
    assert freesurfer.read_header(path).shape == (3, 2, 4)
    with pytest.raises(UserError, match=r"a\.mgh is cut short: 300 bytes of 380"):
        freesurfer.read_image(path)
    packed = write(tmp_path / "b.mgz")
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(UserError, match="damaged or cut short"):
        freesurfer.read_image(packed)


def test_another_file_is_no_mgh(tmp_path: Path) -> None:
    (tmp_path / "a.mgz").write_bytes(gzip.compress(b"x" * 400))
    with pytest.raises(UserError, match="is not an MGH file"):
        freesurfer.read_header(tmp_path / "a.mgz")


def test_an_unknown_type_of_voxel_is_a_damaged_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mgh")
    content = bytearray(path.read_bytes())
    content[20:24] = (77).to_bytes(4, "big")
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match="damaged header"):
        freesurfer.read_header(path)
