"""How much memory a training takes, and so how many voxels a crop may have."""

import os
import shutil

from tracoco.config import DataConfig, NetworkConfig

KEPT_MAPS = {"light-unet": 6, "vnet": 10, "unet": 13}
"""Maps a level that a network keeps until the gradients are computed, each as wide as its level:
counted from what autograd saves, the mean of the levels."""
LEVELS = 4
SHARE_OF_RAM = 4
"""Without a GPU, one of so many parts of the machine's memory is for a training."""
ASSUMED_GB = 8.0
"""Memory of a machine that does not tell."""
BYTES = 4


def training_gb(voxels: int, dimensions: int, network: str = NetworkConfig().name) -> float:
    """Memory of a step of TraCoCo in gigabytes, within a factor of two.

    voxels x filters x kept maps x (1 + r + r^2 + ...) x passes x 4 bytes: each level has twice
    the channels at a fraction of the voxels, so r is 1/4 in 3D and 1/2 in 2D. Weights are little
    beside this.
    """
    ratio = 2.0 ** (1 - dimensions)
    levels = sum(ratio**level for level in range(LEVELS))
    floats = voxels * NetworkConfig().filters * KEPT_MAPS[network] * levels
    return BYTES * floats * passes() / 1e9


def passes() -> int:
    """Crops of a step at the default batch sizes, each kept for its gradients by two networks.

    Both crops of each pair, and the mixed unlabelled ones.
    """
    data = DataConfig()
    return 2 * (2 * (data.labelled_batch + data.unlabelled_batch) + data.unlabelled_batch)


def voxels_within(memory_gb: float, dimensions: int) -> int:
    """Voxels of the largest crop that the default network can be trained on."""
    return int(memory_gb / training_gb(1, dimensions))


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
