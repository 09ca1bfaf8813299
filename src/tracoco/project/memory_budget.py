"""How much memory a training takes, and so how large crops and batches may be."""

import os
import shutil
from collections.abc import Sequence
from math import prod

from tracoco.config import DataConfig, NetworkConfig
from tracoco.geometry import Strides, total_stride

KEPT_MAPS = {"light-unet": 6, "vnet": 10, "unet": 13}
"""Maps a level that a network keeps until the gradients are computed, each as wide as its level:
counted from what autograd saves, the mean of the levels."""
OWN_LEVELS = 3
"""Levels below the finest of a network that is not told how to go down."""
SHARE_OF_RAM = 4
"""Without a GPU, one of so many parts of the machine's memory is for a training."""
ASSUMED_GB = 8.0
"""Memory of a machine that does not tell."""
BYTES = 4


def training_gb(
    crop: Sequence[int],
    strides: Strides = (),
    batch: tuple[int, int] | None = None,
    network: str = NetworkConfig().name,
) -> float:
    """Memory of a step of TraCoCo in gigabytes, within a factor of two.

    filters x kept maps x passes x 4 bytes for each voxel, summed over the levels: each has twice
    the channels of the one above, at the voxels that its stride leaves. Weights are little beside
    this.
    """
    strides = strides or ((2,) * len(crop),) * OWN_LEVELS
    levels = [float(2**n / prod(total_stride(strides[:n]))) for n in range(len(strides) + 1)]
    floats = prod(crop) * sum(levels) * NetworkConfig().filters * KEPT_MAPS[network]
    return BYTES * floats * passes(batch) / 1e9


def passes(batch: tuple[int, int] | None = None) -> int:
    """Crops of a step, each kept for its gradients by two networks; of the default batch if none.

    Both crops of each pair, and the mixed unlabelled ones.
    """
    labelled, unlabelled = batch or DataConfig().batch
    return 2 * (2 * (labelled + unlabelled) + unlabelled)


def machine_gb() -> float:
    """The GPU's memory, or a part of the machine's."""
    if shutil.which("nvidia-smi"):  # without a driver, torch need not be asked
        import torch  # noqa: PLC0415 - it takes seconds, and a plan needs it for nothing else

        if torch.cuda.is_available():
            return float(torch.cuda.get_device_properties(0).total_memory) / 1e9
    return _memory_gb() / SHARE_OF_RAM


def _memory_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):
        return ASSUMED_GB
