"""Why crop, levels and batch of a plan are as large as they are."""

from tracoco.geometry import Strides, total_stride
from tracoco.project.batch import ENOUGH_VOXELS, MOST_CROPS, choose_batch
from tracoco.project.crop import MOST_VOXELS, THIN, choose_crop
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.levels import LONGER, SMALLEST
from tracoco.project.make_plan import stored_lengths
from tracoco.project.memory_budget import passes, training_gb
from tracoco.project.plan import Plan
from tracoco.project.reason import Reason, or_by_hand, sides


def crop_reason(
    plan: Plan, fingerprint: Fingerprint, follows: tuple[int, int, int], memory_gb: float
) -> Reason:
    """How much a network sees at once; `follows` is what the data would give."""
    lengths = stored_lengths(plan, fingerprint)
    why = f"two thirds of a scan, in multiples of 16 or 8; axes of fewer than {THIN} voxels whole"
    in_time = choose_crop(lengths, plan.dimensions)
    if follows != in_time:
        why += f"; cut for at most {memory_gb:.3g} GB of memory"
    elif in_time != choose_crop(lengths, plan.dimensions, lambda _: True):
        why += f"; cut for at most {MOST_VOXELS} voxels, for time"
    numbers = f"median scan {sides(lengths)} voxels"
    return Reason("crop", sides(plan.crop), or_by_hand(why, plan.crop, follows), numbers)


def strides_reason(plan: Plan, follows: Strides) -> Reason:
    """The depth of the network: its levels, and what a voxel of the coarsest one covers."""
    if not plan.strides:
        why = f"not stated: three levels that halve all axes; from the crop {_levels(follows)}"
        return Reason("strides", "the network's own", why, "")
    why = (
        "each level of light-unet halves the axes which that leaves with whole voxels, "
        f"{SMALLEST} or more; an axis whose voxels are over {LONGER} times longer waits"
    )
    if plan.strides != follows:
        why = f"set by hand or by a recipe; from the crop {_levels(follows)}"
    steps = total_stride(plan.strides)
    left = [size // step for size, step in zip(plan.seen, steps, strict=True)]
    lengths = plan.spacing_mm[-plan.dimensions :]
    coarse = [side and side * step for side, step in zip(lengths, steps, strict=True)]
    numbers = f"coarsest level: {sides(left)} voxels of {sides(coarse)} mm"
    return Reason("strides", _levels(plan.strides), why, numbers)


def batch_reason(plan: Plan, memory_gb: float) -> Reason:
    """How many crops a step has, and the memory that it takes."""
    roomy = choose_batch(plan.seen, lambda _: True)
    follows = choose_batch(
        plan.seen, lambda batch: training_gb(plan.seen, plan.strides, batch) <= memory_gb
    )
    why = f"about {ENOUGH_VOXELS} voxels of each kind, in 2 to {MOST_CROPS} crops"
    if follows != roomy:
        why += f"; fewer for at most {memory_gb:.3g} GB of memory"
    needed = training_gb(plan.seen, plan.strides, plan.batch)
    return Reason(
        "batch",
        "{} labelled, {} unlabelled".format(*plan.batch),
        or_by_hand(why, plan.batch, follows),
        f"{passes(plan.batch)} passes of a step: {needed:.2g} GB",
    )


def _levels(strides: Strides) -> str:
    """Network depth in words, with what each level below the finest makes one of."""
    steps = ", ".join(sides(stride) for stride in strides)
    return f"{len(strides) + 1} levels: {steps}" if strides else "a single level"
