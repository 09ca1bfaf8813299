"""For training loops of your own: crop pairs of tensors, and a method as a plain module."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tracoco.data.batch import TensorPair
from tracoco.data.crop import draw_anywhere, draw_second, start_ranges
from tracoco.errors import UserError
from tracoco.geometry import Size, overlap
from tracoco.methods import build_method as build
from tracoco.methods.method import Method, NetworkFactory, RunFacts
from tracoco.settings import MethodChoice


def crop_pair(
    volume: Tensor, size: Sequence[int], generator: torch.Generator | None = None
) -> TensorPair:
    """Two overlapping crops of a volume [C, ...], and the box of their overlap in each of them.

    The first lies anywhere in the volume. The second is shifted by at most half the crop along each
    axis, and not by nothing, unless the volume is no larger than the crop. Both are copies. A label
    can be cropped along as a further channel.

    The voxels `first[:, *overlap[0].slices]` and `second[:, *overlap[1].slices]` are the same.

    Args:
        volume: channels first, then two or three axes.
        size: voxels of a crop along each axis; at most those of the volume.
        generator: decides; torch's own if it is not given.
    """
    shape, size = tuple(volume.shape[1:]), tuple(size)
    _check_fits(shape, size)
    seed = torch.randint(2**62, (), generator=generator).item()
    random, ranges = np.random.default_rng(int(seed)), start_ranges(shape, size)
    first = draw_anywhere(size, ranges, random)
    second = draw_second(first, ranges, random)
    here, there = (volume[:, *box.slices].clone() for box in (first, second))
    return here, there, overlap(first.start, second.start, size)


def _check_fits(shape: Size, size: Size) -> None:
    if len(shape) not in (2, 3):
        raise UserError(
            f"a volume is [C, X, Y] or [C, X, Y, Z], but this one has {len(shape) + 1} axes; give "
            "the volumes of a batch one by one, and add an axis where there are no channels"
        )
    if len(size) != len(shape) or any(not 1 <= s <= n for s, n in zip(size, shape, strict=True)):
        raise UserError(
            f"a crop of {list(size)} does not fit into a volume of {list(shape)}; choose from 1 to "
            "as many voxels along each axis, or pad the volume first"
        )


def build_method(  # noqa: PLR0913 - what a method may know of its training
    name: str,
    network: NetworkFactory,
    *,
    classes: int,
    steps: int,
    channels: int = 1,
    dimensions: int = 3,
    steps_per_epoch: int = 1,
    unlabelled_batch: int = 2,
    intensity_limits: tuple[float, float] = (0.0, 1.0),
    settings: Mapping[str, Any] | None = None,
) -> Method:
    """A method as a module that makes weighted loss terms of a `Batch` and the step's number.

    Its networks are parts of it. A loop calls `before_step` before each step, and `after_step` once
    the optimizer has moved the weights; `predict` gives class probabilities.
    The weights of the terms are the method's own: what the trainer of this package adds, e.g.
    that unlabelled crops count less while the networks disagree on them, is not part of it.

    Args:
        name: a name of `tracoco methods`, or of your own method.
        network: makes a fresh network from crops [B, C, ...] to logits [B, classes, ...], as often
            as the method asks. Methods that look into a network, e.g. `mc-net`, need one of this
            package, and `cross-teaching` asks for its second one with `name` and `options`.
        classes: of the labels, the background among them.
        steps: length of the training, which ramps follow.
        channels: of a crop.
        dimensions: 2 or 3.
        steps_per_epoch: for ramps that are given in epochs.
        unlabelled_batch: unlabelled crops of a batch; some methods need two or more.
        intensity_limits: the darkest and the brightest intensity; noise is a fraction of their
            distance.
        settings: of the method, where they are not the defaults, e.g. `{"gamma": 0.7}`.
    """
    low, high = intensity_limits
    facts = RunFacts(
        classes=classes,
        channels=channels,
        dimensions=dimensions,
        total_steps=steps,
        steps_per_epoch=steps_per_epoch,
        unlabelled_batch=unlabelled_batch,
        intensity_range=high - low,
        intensity_limits=intensity_limits,
    )
    return build(MethodChoice(name=name, **(settings or {})), network, facts)
