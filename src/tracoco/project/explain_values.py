"""Why single values of a plan were chosen: intensities, crop, levels, width, batch and length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tracoco.config import FILTERS, STEPS
from tracoco.geometry import Strides, total_stride
from tracoco.project.case_statistics import CaseStatistics
from tracoco.project.derive import DARK, LONGER, SMALLEST, Window, looking_like_ct, suitable_voxels
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.machine import WIDEST, Machine, passes, plan_gb
from tracoco.project.plan import Plan
from tracoco.project.planner import THIN, BatchSizes, choose_batch, choose_crop, stored_lengths


@dataclass(frozen=True, slots=True)
class Reason:
    """One value of a plan."""

    name: str
    value: str
    why: str
    numbers: str
    """What was measured."""


def or_by_hand(why: str, value: object, follows: object) -> str:
    """The reason, unless a person chose another value than the data would give."""
    if value == follows:
        return why
    return f"set by hand or by --paper-data; from the data it would be {_plain(follows)}"


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return by_axis(value)
    return "null" if value is None else str(value)


def by_axis(values: Sequence[float | None]) -> str:
    """Numbers by axis."""
    return " x ".join("as scanned" if value is None else f"{value:g}" for value in values)


def value_range(values: Sequence[float]) -> str:
    """From the least to the largest."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


VOXELS = {
    "above_background": "many voxels have exactly the lowest value, which is no part of the body",
    "above_air": f"most voxels are dark: the median lies below {100 * DARK:g} % of the range, in "
    "noisy air",
    "all": "there is neither a constant background nor much dark air",
}
"""Why statistics are taken over these voxels."""


def intensity_reasons(plan: Plan, fingerprint: Fingerprint, follows: Plan) -> Iterator[Reason]:
    """What is done to intensities, and then a channel at a time from which numbers."""
    yield _normalisation(plan)
    for channel, window in enumerate(plan.window):
        yield _window(plan, fingerprint, follows, channel)
        if plan.normalisation == "zscore" and window:
            yield _window_scale(plan, fingerprint, channel, window)
        elif plan.normalisation == "zscore":
            yield _statistics(plan, fingerprint, follows, channel)


def _normalisation(plan: Plan) -> Reason:
    if plan.normalisation == "range":
        why = (
            "in plans without this entry, or set by hand or by --paper-data; a new plan has zscore"
        )
        numbers = "intensities become 0 to 1"
    else:
        why = "a mean of the body is subtracted and a standard deviation divided by, so that a "
        why += "scan's air or a bright lesion does not move the rest"
        numbers = "intensities become {:.3g} to {:.3g}".format(*plan.intensity_limits)
    return Reason("normalisation", plan.normalisation, why, numbers)


def _window(plan: Plan, fingerprint: Fingerprint, follows: Plan, channel: int) -> Reason:
    window = plan.window[channel]
    like_ct = looking_like_ct(fingerprint.cases, channel)
    if follows.window[channel]:
        why = "looks like CT: 0.5 and 99.5 percent of the labelled structures' intensities"
    else:
        why = f"percentiles {plan.low_percentile} and {plan.high_percentile} of each scan, "
        why += "since its numbers do not mean the same in every scan"
    numbers = f"{like_ct} of {len(fingerprint.cases)} scans have whole numbers down to air"
    if fingerprint.foreground:
        valid = fingerprint.foreground[channel]
        numbers += f"; structures: {valid.mean:.4g} +- {valid.sd:.4g}"
    value = f"{window[0]:g} to {window[1]:g}" if window else "of each scan"
    why = or_by_hand(why, window, follows.window[channel])
    return Reason(f"window, channel {channel}", value, why, numbers)


def _window_scale(plan: Plan, fingerprint: Fingerprint, channel: int, window: Window) -> Reason:
    mean, sd = plan.window_scale(channel, window)
    valid = fingerprint.foreground[channel] if fingerprint.foreground else None
    known = (valid.mean, valid.sd) if valid and valid.sd > 0 else None
    value = plan.window_mean_sd[channel]
    if value is None:
        why = "not stated: the centre of the window and a quarter of its width"
    else:
        why = or_by_hand("mean and standard deviation of the labelled structures", value, known)
    numbers = f"structures: {valid.mean:.4g} +- {valid.sd:.4g}" if valid else ""
    return Reason(f"window_mean_sd, channel {channel}", f"{mean:g} +- {sd:g}", why, numbers)


def _statistics(plan: Plan, fingerprint: Fingerprint, follows: Plan, channel: int) -> Reason:
    chosen, usual = plan.statistics_over[channel], follows.statistics_over[channel]
    counts = suitable_voxels(fingerprint.cases, channel)
    votes = ", ".join(f"{name} suits {count}" for name, count in counts.items())
    numbers = f"{votes} of {len(fingerprint.cases)} scans"
    numbers += _percentiles(fingerprint.cases, channel)
    why = VOXELS[chosen] if any(counts.values()) else "nothing is known of the scans' intensities"
    why = or_by_hand(why, chosen, usual)
    return Reason(f"statistics_over, channel {channel}", chosen, why, numbers)


def _percentiles(cases: Sequence[CaseStatistics], channel: int) -> str:
    """Of the scan in the middle, for each percentile that the choice goes by."""
    known = [case.intensities[channel].percentiles for case in cases if case.intensities]
    if not known:
        return ""
    low, dark, median, _, high = np.median(known, axis=0)
    return f"; percentiles 0.5, 5, 50 and 99.5: {low:g}, {dark:g}, {median:g} and {high:g}"


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
    numbers = f"median scan {by_axis(lengths)} voxels"
    return Reason("crop", by_axis(plan.crop), or_by_hand(why, plan.crop, follows), numbers)


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
        why = f"set by hand or by --paper-data; from the crop {_levels(follows)}"
    steps = total_stride(plan.strides)
    left = [size // step for size, step in zip(plan.network_crop, steps, strict=True)]
    lengths = plan.spacing_mm[-plan.dimensions :]
    coarse = [side and side * step for side, step in zip(lengths, steps, strict=True)]
    numbers = f"coarsest level: {by_axis(left)} voxels of {by_axis(coarse)} mm"
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

    roomy = choose_batch(plan.network_crop, lambda _: True, machine)
    follows = choose_batch(plan.network_crop, fits, machine)
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
    steps = ", ".join(by_axis(stride) for stride in strides)
    return f"{len(strides) + 1} levels: {steps}" if strides else "a single level"
