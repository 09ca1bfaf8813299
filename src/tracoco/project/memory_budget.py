"""How much memory a training takes, and so how large networks, crops and batches may be."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tracoco.config import BATCH, FILTERS, NetworkConfig, Precision
from tracoco.geometry import Strides, total_stride
from tracoco.project.plan import Plan

KEPT_MAPS = {"light-unet": (5, 8), "vnet": (10, 10), "unet": (13, 13)}
"""Maps that a network keeps for its gradients at its finest level and at each other one, each as
wide as its level. Of `light-unet` they are fitted to counted steps, and hold for either
normalisation and either decoder."""
KEPT_ANSWERS = 5
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
    return training_gb(Step(plan.seen, strides or plan.strides, plan.batch, *sizes), network)


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
    answers = step.classes * KEPT_ANSWERS * BYTES
    voxels = prod(step.crop) * passes(step.batch)
    return (voxels * (maps + answers) + _weight_bytes(step, len(strides))) / 1e9


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
