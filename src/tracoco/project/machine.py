"""What a training will run on: how much memory there is, and what time allows."""

import os
import shutil
from dataclasses import dataclass
from typing import Literal

from tracoco.config import FILTERS, STEPS, Precision
from tracoco.errors import UserError

SHARE_OF_RAM = 4
"""Without a GPU, one of so many parts of the machine's memory is for a training."""
SHARE_OF_GPU = 0.85
"""Of a GPU's memory: the rest is for the driver, the workspace of convolutions, and gaps."""
ASSUMED_GB = 8.0
"""Memory of a machine that does not tell."""
TYPICAL_GPUS = (8.0, 24.0, 80.0)
"""Gigabytes of a small, a large and a data centre's GPU: what plans are compared for."""

Device = Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class Size:
    """How wide a network may be, with how many voxels at most in a crop."""

    filters: int
    voxels: int


CPU_SIZES = (Size(FILTERS, 96**3),)
"""As much as the paper's crops have: on a CPU time is what limits, whatever the memory."""
GPU_SIZES = (
    *(Size(16, 96**3), Size(24, 96**3), Size(24, 112**3)),
    *(Size(32, 112**3), Size(32, 120**3), Size(32, 128**3), Size(32, 144**3), Size(32, 160**3)),
    Size(48, 160**3),
)
"""Both grow by turns, so that more memory never makes a plan smaller. nnU-Net has 32 filters."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a plan is made for."""

    device: Device
    memory_gb: float

    @property
    def budget_gb(self) -> float:
        """What the tensors of a step may take."""
        return self.memory_gb * (SHARE_OF_GPU if self.device == "gpu" else 1)

    @property
    def precision(self) -> Precision | None:
        """What convolutions are computed in; None leaves it to a trial when a run starts."""
        return "bf16" if self.device == "gpu" else None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """What networks and crops may grow to, the smallest first."""
        return GPU_SIZES if self.device == "gpu" else CPU_SIZES

    @property
    def batch_voxels(self) -> int:
        """Of each kind in a step: fewer make its gradients noisy, more cost time."""
        return 96**3 if self.device == "gpu" else 64**3

    @property
    def most_crops(self) -> int:
        """Of each kind: more would take few labelled scans several times over."""
        return 8 if self.device == "gpu" else 4

    @property
    def steps(self) -> int:
        """Of a training: the paper's on its 3D data sets, or what a CPU takes in hours."""
        return 15_000 if self.device == "gpu" else STEPS


def find_machine(device: Device | None = None, memory_gb: float | None = None) -> Machine:
    """The machine that is asked for; what is not said is looked up on this one."""
    here = None if device == "cpu" or (device and memory_gb) else gpu_gb()
    device = device or ("gpu" if here else "cpu")
    if memory_gb is not None:
        return Machine(device, memory_gb)
    if device == "cpu":
        return Machine("cpu", _ram_gb() / SHARE_OF_RAM)
    if here is None:
        raise UserError("this machine has no GPU to ask for its memory; add e.g. --memory-gb 24")
    return Machine("gpu", here)


def gpu_gb() -> float | None:
    """Memory of this machine's GPU; None if it has none."""
    if shutil.which("nvidia-smi"):  # without a driver, torch need not be asked
        import torch  # noqa: PLC0415 - it takes seconds, and a plan needs it for nothing else

        if torch.cuda.is_available():
            return float(torch.cuda.get_device_properties(0).total_memory) / 1e9
    return None


def _ram_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):
        return ASSUMED_GB
