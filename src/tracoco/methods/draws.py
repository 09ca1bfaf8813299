"""Numbers that methods draw, from torch's generator: the trainer seeds it at every step."""

import torch


def uniform(low: float, high: float) -> float:
    """A number between two others, all equally likely."""
    return low + (high - low) * float(torch.rand(()))


def happens(share: float) -> bool:
    """True in this share of the draws."""
    return uniform(0, 1) < share
