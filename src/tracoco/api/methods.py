"""A method as a plain module, for training loops that are not ours."""

from collections.abc import Mapping
from typing import Any

from tracoco.methods.method import Method, NetworkFactory, RunFacts
from tracoco.methods.method import build_method as build
from tracoco.settings import MethodChoice


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
