"""What a prediction says of each voxel of a scan: its label, and maps of probability or entropy.

Maps that are too large for memory are in a file without a name, which goes with the array.
"""

import errno
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracoco.errors import full_disk_named
from tracoco.geometry import Box, whole
from tracoco.inference.prediction import ByteMap
from tracoco.project.plan import Plan
from tracoco.project.preprocess import raw_values
from tracoco.scans.scan import Shape

CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Of some disks, e.g. those in a network."""


def zeros(shape: Sequence[int], folder: Path | None = None) -> NDArray[np.uint8]:
    """Bytes of 0, the first axis slowest and then the last one, as NIfTI has its volumes.

    Args:
        shape: [K, X, Y, Z].
        folder: where the file is; without one, or where a system or a disk cannot reserve its
            space, the bytes are in memory.
    """
    count, *lengths = shape
    stored = (count, *reversed(lengths))
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


class ScanMaps:
    """Label and maps of a whole scan in canonical axis order, filled some rows at a time.

    Values come by class, one after the other, and each is used at once: the label is the running
    winner, so the probabilities of all classes are never held together at the scan's size. They
    are those of a box of the scan; around it is background, and nothing is more certain.
    """

    def __init__(
        self,
        shape: Shape,
        plan: Plan,
        wanted: Iterable[str] = (),
        box: Box | None = None,
        folder: Path | None = None,
    ) -> None:
        """`shape` is the scan's, `box` the part that is filled: all of it if not given.

        With a folder the maps are in files there while they are made, and not in memory.
        """
        self.plan, self.box = plan, box or whole(shape)
        self.label: NDArray[Any] = np.zeros(shape, raw_values(np.array(0), plan).dtype)
        largest = {"entropy": math.log(plan.classes)}
        self.maps = {}
        for name in wanted:
            levels = zeros((plan.classes if name == "probability" else 1, *shape), folder)
            self.maps[name] = ByteMap(
                levels if name == "probability" else levels[0], largest.get(name, 1.0)
            )
        if "probability" in self.maps:
            self.maps["probability"].levels[0] = 255

    def fill(self, axis: int, rows: slice, channels: Iterator[Tensor]) -> None:
        """Take some rows of the box along a stored axis.

        Their values come by class, and behind them the disagreement if it is wanted.
        """
        highest = next(channels)
        winner = torch.zeros(highest.shape, dtype=torch.uint8, device=highest.device)
        entropy = self._class(0, highest, None, axis, rows)
        for index in range(1, self.plan.classes):
            value = next(channels)
            winner[value > highest] = index
            highest = torch.maximum(highest, value)
            entropy = self._class(index, value, entropy, axis, rows)
        self._part(self.label, axis, rows)[...] = raw_values(winner.cpu().numpy(), self.plan)
        if entropy is not None:
            self._store("entropy", entropy, axis, rows)
        if "disagreement" in self.maps:
            self._store("disagreement", next(channels), axis, rows)

    def _class(
        self, index: int, value: Tensor, entropy: Tensor | None, axis: int, rows: slice
    ) -> Tensor | None:
        """Keep what is wanted of a class; the entropy with its part added is returned."""
        if "probability" in self.maps:
            self._store("probability", value, axis, rows, index)
        if "entropy" not in self.maps:
            return None
        fraction: Tensor = -torch.special.xlogy(value, value)
        return fraction if entropy is None else entropy + fraction

    def _store(
        self, name: str, value: Tensor, axis: int, rows: slice, index: int | None = None
    ) -> None:
        found = self.maps[name]
        levels = found.levels if index is None else found.levels[index]
        scaled = (value / found.step).round().clamp(0, 255)
        self._part(levels, axis, rows)[...] = scaled.to(torch.uint8).cpu().numpy()

    def _part(self, array: NDArray[Any], axis: int, rows: slice) -> NDArray[Any]:
        """Some rows of the box along a stored axis, to be written to."""
        place = [slice(None)] * 3
        place[axis] = rows
        part: NDArray[Any] = array[self.box.slices].transpose(self.plan.stored_axes)[tuple(place)]
        return part


def disagreement(first: Tensor, second: Tensor) -> Tensor:
    """Half the sum over classes of |p - q|, [B, 1, ...]: 0 if alike, 1 if no class is shared."""
    return (first - second).abs().sum(dim=1, keepdim=True) / 2
