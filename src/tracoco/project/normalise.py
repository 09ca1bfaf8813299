"""The intensities of a scan, brought to what networks expect: [0, 1] or standard deviations."""

import numpy as np
from numpy.typing import NDArray

from tracoco.geometry import Box
from tracoco.project.derive import DARK
from tracoco.project.plan import FARTHEST, Plan

Channel = NDArray[np.float32]


def normalise(channel: Channel, plan: Plan, number: int = 0, box: Box | None = None) -> Channel:
    """Normalise one channel of a scan as the plan says.

    With a box only that part comes back; its values are those that it has in the whole scan. A
    constant image becomes zeros. A plan that does not rescale keeps the values of the file.
    """
    kept = channel[box.slices] if box else channel
    if not plan.rescale:
        return kept.copy()
    if plan.normalisation == "range":
        return _scaled(channel, kept, plan, number)
    window = plan.window[number]
    if window:
        mean, sd = plan.window_scale(number, window)
        return _standardised(kept.clip(*window), mean, sd)
    mean, sd = _mean_sd(_counted(channel, plan, number), plan)
    if np.float32(sd) == 0:
        return np.zeros_like(kept)
    standardised = _standardised(kept.copy(), mean, sd)
    return standardised.clip(-FARTHEST, FARTHEST, out=standardised)


def _scaled(channel: Channel, kept: Channel, plan: Plan, number: int) -> Channel:
    """Clip at the window of this channel, or at percentiles of the scan, and scale to [0, 1]."""
    low, high = plan.window[number] or _percentiles(channel, plan)
    if high <= low:  # nearly all voxels are alike: what differs is all there is to see
        low, high = float(channel.min()), float(channel.max())
    if high <= low:
        return np.zeros_like(kept)
    scaled: Channel = kept - np.float32(low)
    scaled /= np.float32(high - low)
    return scaled.clip(0, 1, out=scaled)


def _standardised(values: Channel, mean: float, sd: float) -> Channel:
    """In place, so that a large scan is not in memory once more."""
    values -= np.float32(mean)
    values /= np.float32(sd)
    return values


def _counted(channel: Channel, plan: Plan, number: int) -> Channel:
    """The voxels that mean and deviation are taken of."""
    over = plan.statistics_over[number]
    if over == "all":
        return channel
    low, high = _percentiles(channel, plan)
    return channel[channel > (low if over == "above_background" else low + DARK * (high - low))]


def _mean_sd(values: Channel, plan: Plan) -> tuple[float, float]:
    """Mean and deviation of values clipped at their percentiles; 0 and 0 if they are all alike."""
    low, high = _percentiles(values, plan) if values.size else (0.0, 0.0)
    if high <= low:
        return 0.0, 0.0
    clipped = values.clip(low, high)
    return float(clipped.mean(dtype=np.float64)), float(clipped.std(dtype=np.float64))


def _percentiles(values: Channel, plan: Plan) -> tuple[float, float]:
    low, high = np.percentile(values, [plan.low_percentile, plan.high_percentile])
    return float(low), float(high)
