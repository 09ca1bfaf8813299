"""Arrays that are too large for memory: in a file without a name, which goes with the array."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from tracoco.files import full_disk_named

CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Of some disks, e.g. those in a network."""


def zeros(shape: Sequence[int], folder: Path | None = None) -> NDArray[np.uint8]:
    """Bytes of 0, the first axis slowest and then the last one, as NIfTI has its volumes.

    Args:
        shape: [K, X, Y, Z].
        folder: where the file is; without one, or where a system or a disk cannot reserve its
            space, the bytes are in memory.
    """
    count, *sides = shape
    stored = (count, *reversed(sides))
    if folder is None or not hasattr(os, "posix_fallocate"):
        return _in_memory(stored)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder) as file:
        with full_disk_named(folder):
            # A disk that is full is noticed here: later it would end the process without a word.
            try:
                os.posix_fallocate(file.fileno(), 0, int(np.prod(stored)))
            except OSError as error:
                if error.errno in CANNOT_RESERVE:
                    return _in_memory(stored)
                raise
        return np.memmap(file, np.uint8, "r+", shape=stored).transpose(0, 3, 2, 1)


def _in_memory(stored: Sequence[int]) -> NDArray[np.uint8]:
    return np.zeros(stored, np.uint8).transpose(0, 3, 2, 1)
