"""Passes of their own for pseudo-labels: without gradient, noise and dropout."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torch import nn

from tracoco.methods.method import (
    evaluating,
)
from tracoco.networks.statistics import frozen_statistics, norms_by_batch

CleanPass = Literal["batch", "clean"]
"""What BatchNorm normalises by; networks without it give the same labels either way.

batch: the statistics of the batch, as in the authors' release. Running statistics stay as they are.
clean: its running statistics, as at test time. While weights move fast these lag behind, and
    pseudo-labels that rely on them can lose the foreground: in TraCoCo's training of a narrow VNet
    twice as often as with `batch`, in that of CPS about as often (docs/benchmarks.md).
"""


PseudoLabelPass = Literal["batch", "clean", "training"]
"""`training`: no pass of their own but the training pass, with its noise and dropout."""


@contextmanager
def clean_pass(module: nn.Module, form: CleanPass) -> Iterator[None]:
    """Passes of `module` in here are without gradient and dropout, and `form` says the rest."""
    with evaluating(module), frozen_statistics(module):
        if form == "batch":
            for norm in norms_by_batch(module):
                norm.train()
        yield
