"""What a training will run on: how much memory there is, and what time allows."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from tracoco.config import BATCH, FILTERS, STEPS, NetworkConfig, Precision
from tracoco.errors import UserError, check_choice
from tracoco.geometry import Strides, total_stride
from tracoco.memory import total_bytes
from tracoco.project.plan import Plan

RAM_FRACTION = 0.25
"""Without a GPU, this fraction of the machine's memory is for a training."""
GPU_FRACTION = 0.85
"""Of a GPU's memory: the rest is for the driver, the workspace of convolutions, and gaps."""
ASSUMED_GB = 8.0
"""Memory of a machine that does not tell."""
TYPICAL_GPUS = (8.0, 24.0, 80.0)
"""Gigabytes of a small, a large and a data centre's GPU: what plans are compared for."""

Device = Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class TrainingSize:
    """How wide a network may be, with how many voxels at most in a crop."""

    filters: int
    voxels: int


CPU_SIZES = (TrainingSize(FILTERS, 96**3),)
"""As much as the paper's crops have: on a CPU time is what limits, whatever the memory."""
GPU_SIZES = (
    *(TrainingSize(16, 96**3), TrainingSize(24, 96**3), TrainingSize(24, 112**3)),
    *(
        TrainingSize(32, 112**3),
        TrainingSize(32, 120**3),
        TrainingSize(32, 128**3),
        TrainingSize(32, 144**3),
        TrainingSize(32, 160**3),
    ),
    TrainingSize(48, 160**3),
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
        return self.memory_gb * (GPU_FRACTION if self.device == "gpu" else 1)

    @property
    def precision(self) -> Precision | None:
        """What convolutions are computed in; None leaves it to a trial when a run starts."""
        return "bf16" if self.device == "gpu" else None

    @property
    def sizes(self) -> tuple[TrainingSize, ...]:
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
    if device:
        check_choice("device", device, get_args(Device))
    here = None if device == "cpu" or (device and memory_gb) else gpu_gb()
    device = device or ("gpu" if here else "cpu")
    if memory_gb is not None:
        return Machine(device, memory_gb)
    if device == "cpu":
        return Machine("cpu", RAM_FRACTION * _ram_gb())
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
    total = total_bytes()
    return ASSUMED_GB if total is None else total / 1e9


KEPT_MAPS = {"light-unet": (5, 8), "vnet": (10, 10), "unet": (13, 13)}
"""Maps that a network keeps for its gradients at its finest level and at each other one, each as
wide as its level. Of `light-unet` they are fitted to counted steps, and hold for either
normalisation and either decoder."""
KEPT_PREDICTIONS = 5
"""Maps of each class that the losses keep a pass, in fp32: fitted to counted steps."""
KEPT_WEIGHTS = 6
"""For each weight: itself, its gradient, the two moments of AdamW, and its averages for prediction
and for pseudo-labels."""
NETWORKS = 2
OWN_LEVELS = 3
"""Levels below the finest of a network that is not told how to go down."""
WIDEST = 320
"""Channels that a deep level has at most."""
BYTES = 4


@dataclass(frozen=True, slots=True)
class Step:
    """What the memory of a step goes by."""

    crop: Sequence[int]
    strides: Strides = ()
    batch: tuple[int, int] = BATCH
    filters: int = FILTERS
    classes: int = 2
    precision: Precision = "fp32"


def plan_gb(plan: Plan, network: str = NetworkConfig().name, strides: Strides = ()) -> float:
    """Memory of a step as planned; another network has strides and a width of its own."""
    filters = plan.filters if network == NetworkConfig().name else None
    sizes = (filters or FILTERS, plan.classes, plan.precision or "fp32")
    return training_gb(
        Step(plan.network_crop, strides or plan.strides, plan.batch, *sizes), network
    )


def training_gb(step: Step, network: str = NetworkConfig().name) -> float:
    """Memory of a step of TraCoCo in gigabytes: of `light-unet` within a fifth of what is counted.

    filters x kept maps x passes x bytes for each voxel, summed over the levels: each has twice
    the channels of the one above, at the voxels that its stride leaves. To that come the maps of
    the classes and the weights. Of other networks it is within a factor of two.
    """
    strides = step.strides or ((2,) * len(step.crop),) * OWN_LEVELS
    levels = range(1, len(strides) + 1)
    coarse = [float(2**n / prod(total_stride(strides[:n]))) for n in levels]
    finest, others = KEPT_MAPS[network]
    size = BYTES if step.precision == "fp32" else BYTES / 2
    maps = step.filters * (finest + others * sum(coarse)) * size
    predictions = step.classes * KEPT_PREDICTIONS * BYTES
    voxels = prod(step.crop) * passes(step.batch)
    return (voxels * (maps + predictions) + _weight_bytes(step, len(strides))) / 1e9


def _weight_bytes(step: Step, levels: int) -> int:
    """Convolutions of 3 voxels along each axis have nearly all weights.

    The encoder has one at each level but the finest, and the decoder at each of these but the
    coarsest.
    """
    widths: list[int] = [min(WIDEST, step.filters * 2**n) for n in range(1, levels + 1)]
    weights: int = 3 ** len(step.crop) * sum(n**2 for n in (*widths, *widths[:-1]))
    return NETWORKS * KEPT_WEIGHTS * BYTES * weights


def passes(batch: tuple[int, int] = BATCH) -> int:
    """Crops of a step, each kept for its gradients by two networks.

    Both crops of each pair, and the mixed unlabelled ones.
    """
    labelled, unlabelled = batch
    return 2 * (2 * (labelled + unlabelled) + unlabelled)
