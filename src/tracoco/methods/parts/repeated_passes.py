"""Several passes of one network over the same crops, to see how steady its answer is."""

from collections.abc import Callable

import torch
from torch import Tensor

from tracoco.methods.parts.student_teacher import clipped_noise


@torch.no_grad()
def mean_of_passes(
    look: Callable[[Tensor], tuple[Tensor, ...]], crops: Tensor, *, noise: float, passes: int
) -> tuple[Tensor, ...]:
    """The mean over all passes of each map that `look` gives, without gradient.

    Every pass has noise of its own on the crops, and dropout of its own in a network that is in
    training mode. They come one after the other, so that memory does not grow with their number.

    Args:
        look: what is wanted of a pass, from its crops; squares of a map for a variance, say.
        crops: [B, C, ...].
        noise: deviation of the noise, in the units of the crops.
        passes: how many, at least one.
    """
    total = look(clipped_noise(crops, noise))
    for _ in range(passes - 1):
        maps = look(clipped_noise(crops, noise))
        total = tuple(sum_ + new for sum_, new in zip(total, maps, strict=True))
    return tuple(sum_ / passes for sum_ in total)
