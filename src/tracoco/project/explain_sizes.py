"""Why crop, levels, width, batch and length of a plan are as large as they are."""

from math import prod

from tracoco.config import FILTERS, STEPS
from tracoco.geometry import Strides, total_stride
from tracoco.project.batch import BatchSizes, choose_batch
from tracoco.project.crop import THIN, choose_crop
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.levels import LONGER, SMALLEST
from tracoco.project.machine import Machine
from tracoco.project.make_plan import stored_lengths
from tracoco.project.memory_budget import WIDEST, passes, plan_gb
from tracoco.project.plan import Plan
from tracoco.project.reason import Reason, or_by_hand, sides


def crop_reason(
    plan: Plan, fingerprint: Fingerprint, follows: tuple[int, int, int], machine: Machine
) -> Reason:
    """How much a network sees at once; `follows` is what the data would give."""
    lengths = stored_lengths(plan, fingerprint)
    why = f"two thirds of a scan, in multiples of 16 or 8; axes of fewer than {THIN} voxels whole"
    most = machine.sizes[-1].voxels
    in_time = choose_crop(lengths, plan.dimensions, lambda crop: prod(crop) <= most)
    if follows != in_time:
        why += f"; cut for at most {machine.budget_gb:.3g} GB of memory"
    elif in_time != choose_crop(lengths, plan.dimensions, lambda _: True):
        why += f"; cut for at most {most} voxels, for time"
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


def filters_reason(plan: Plan, follows: int, machine: Machine) -> Reason:
    """How wide light-unet is; `follows` is what goes with the crop."""
    widths = sorted({size.filters for size in machine.sizes})
    if len(widths) == 1:
        why = "as on every CPU, for time"
    else:
        others = ", ".join(map(str, widths))
        why = f"the widest of {others} whose step fits in {machine.budget_gb:.3g} GB"
    if plan.filters is None:
        return Reason("filters", str(FILTERS), f"not stated: {FILTERS}; else {follows}", "")
    levels = [min(WIDEST, plan.filters * 2**n) for n in range(len(plan.strides) + 1)]
    numbers = f"channels of the levels: {', '.join(map(str, levels))}"
    return Reason("filters", str(plan.filters), or_by_hand(why, plan.filters, follows), numbers)


def precision_reason(plan: Plan, machine: Machine) -> Reason:
    """In which numbers convolutions are computed."""
    why = "GPUs are faster with it, and maps take half the memory"
    why = (
        why
        if machine.device == "gpu"
        else "bf16 where a trial at the start shows that it is faster"
    )
    value, follows = plan.precision or "auto", machine.precision or "auto"
    numbers = "with network.normalisation=batch" if value == "bf16" else ""
    return Reason("precision", value, or_by_hand(why, value, follows), numbers)


def steps_reason(plan: Plan, machine: Machine) -> Reason:
    """How long a training is."""
    why = "as in the paper on the Left Atrium and the pancreas"
    why = why if machine.device == "gpu" else "on a CPU, for time"
    value, follows = plan.steps or STEPS, machine.steps
    numbers = f"{value * sum(plan.batch)} pairs of crops in all"
    return Reason("steps", str(value), or_by_hand(why, value, follows), numbers)


def batch_reason(plan: Plan, machine: Machine) -> Reason:
    """How many crops a step has, and the memory that it takes."""

    def fits(batch: BatchSizes) -> bool:
        return plan_gb(plan.model_copy(update={"batch": batch})) <= machine.budget_gb

    roomy = choose_batch(plan.seen, lambda _: True, machine)
    follows = choose_batch(plan.seen, fits, machine)
    why = f"about {machine.batch_voxels} voxels of each kind, in 2 to {machine.most_crops} crops"
    if follows != roomy:
        why += f"; fewer for at most {machine.budget_gb:.3g} GB of memory"
    needed = plan_gb(plan)
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
