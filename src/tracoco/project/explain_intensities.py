"""Why the intensities of a plan are normalised as they are."""

from collections.abc import Iterator, Sequence

import numpy as np

from tracoco.project.derive import DARK, Window, looking_like_ct, suitable_voxels
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.look import CaseFacts
from tracoco.project.plan import Plan
from tracoco.project.reason import Reason, or_by_hand

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
        why = "in plans without this entry, or set by hand or by a recipe; a new plan has zscore"
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
        inside = fingerprint.foreground[channel]
        numbers += f"; structures: {inside.mean:.4g} +- {inside.sd:.4g}"
    value = f"{window[0]:g} to {window[1]:g}" if window else "of each scan"
    why = or_by_hand(why, window, follows.window[channel])
    return Reason(f"window, channel {channel}", value, why, numbers)


def _window_scale(plan: Plan, fingerprint: Fingerprint, channel: int, window: Window) -> Reason:
    mean, sd = plan.window_scale(channel, window)
    inside = fingerprint.foreground[channel] if fingerprint.foreground else None
    known = (inside.mean, inside.sd) if inside and inside.sd > 0 else None
    value = plan.window_mean_sd[channel]
    if value is None:
        why = "not stated: the centre of the window and a quarter of its width"
    else:
        why = or_by_hand("mean and standard deviation of the labelled structures", value, known)
    numbers = f"structures: {inside.mean:.4g} +- {inside.sd:.4g}" if inside else ""
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


def _percentiles(cases: Sequence[CaseFacts], channel: int) -> str:
    """Of the scan in the middle, for each percentile that the choice goes by."""
    known = [case.intensities[channel].percentiles for case in cases if case.intensities]
    if not known:
        return ""
    low, dark, median, _, high = np.median(known, axis=0)
    return f"; percentiles 0.5, 5, 50 and 99.5: {low:g}, {dark:g}, {median:g} and {high:g}"
