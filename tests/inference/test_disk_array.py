"""Arrays in a file without a name: filled as those in memory are, and nothing is left of them."""

import errno
import os
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.inference.maps import zeros


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be reserved here")
def test_it_is_filled_like_one_in_memory_and_leaves_no_file(tmp_path: Path) -> None:
    on_disk, in_memory = zeros((2, 3, 4, 5), tmp_path / "out"), zeros((2, 3, 4, 5))
    assert on_disk.shape == in_memory.shape == (2, 3, 4, 5)
    assert isinstance(on_disk.base, np.memmap)
    assert not on_disk.any()
    for array in (on_disk, in_memory):
        array[1, :, 2, 1:3] = np.arange(6).reshape(3, 2)
    assert np.array_equal(on_disk, in_memory)
    assert on_disk[1].tobytes("F") == on_disk[1].ravel("K").tobytes()  # a volume of NIfTI
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be reserved here")
@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_disk_that_cannot_reserve_space_is_not_used(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", unable)
    array = zeros((1, 2, 3, 4), tmp_path)
    assert not isinstance(array.base, np.memmap)
    assert array.shape == (1, 2, 3, 4)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be reserved here")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_before_anything_is_predicted(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UserError, match="no space left"):
        zeros((1, 2, 2, 2), tmp_path)
