"""How unsure a model is of a whole scan, and what the scan looks like to it.

Both are computed while the scan is predicted, a few rows at a time, so that memory does not grow
with the scan. `tracoco next` ranks unlabelled scans by them.

Disagreement is 1 - Dice of the labels of two networks, the mean over the structures that either of
them finds. Each structure counts alike and is measured by its own size, so that a large organ does
not make a scan uncertain merely by having many voxels.

Entropy is that of the predicted probabilities, as a fraction of the largest possible one. Its mean
is over voxels weighted by their probability of being foreground: background, which is most of a
scan and mostly certain, hardly counts, and neither does the size of the structures.

Features are the means over the positions of the network's coarsest feature map.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tracoco.inference.prediction import Uncertainty
from tracoco.networks.network import Network


def label_distance(
    shared: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> float:
    """1 - Dice of two label maps, the mean over the structures that either has; 0 without any.

    Args:
        shared: voxels that both give to a structure, for each structure.
        first: voxels that the first gives to it.
        second: voxels that the second gives to it.
    """
    distances = [
        1 - 2 * both / (one + other)
        for both, one, other in zip(shared, first, second, strict=True)
        if one + other
    ]
    return sum(distances) / len(distances) if distances else 0.0


def foreground_entropy(weighted: float, weight: float, classes: int) -> float:
    """The entropy of voxels weighted by their probability of being foreground, from 0 to 1.

    Args:
        weighted: sum of probability times entropy in nats.
        weight: sum of the probabilities.
        classes: with the background.
    """
    return weighted / weight / math.log(classes) if weight else 0.0


class UncertaintyMeter:
    """Measures a scan while its probabilities go by."""

    def __init__(self, classes: int, *, members: bool) -> None:
        """With `members`, the probabilities of two networks come behind those of the prediction."""
        self.classes, self.members = classes, members
        self.weighted = self.weight = 0.0
        self.found = False
        self.counts = torch.zeros(3, classes, dtype=torch.int64)
        """Voxels of each class that both networks, the first and the second give to it."""
        self.features: Tensor | None = None
        self.windows = 0

    def watch(self, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        """The pieces without what was added for this measurement."""
        own = 2 * self.classes if self.members else 0
        for piece in pieces:
            self._add(piece[: self.classes])
            if own:
                self._compare(*piece[-own:].split(self.classes))
            yield piece[: len(piece) - own]

    def _add(self, probabilities: Tensor) -> None:
        foreground = 1 - probabilities[0]
        entropy = -torch.special.xlogy(probabilities, probabilities).sum(dim=0)
        self.weight += float(foreground.sum(dtype=torch.float64))
        self.weighted += float((foreground * entropy).sum(dtype=torch.float64))
        self.found = self.found or bool((probabilities.argmax(dim=0) != 0).any())

    def _compare(self, first: Tensor, second: Tensor) -> None:
        one, other = first.argmax(dim=0), second.argmax(dim=0)
        for row, labels in enumerate((one[one == other], one.flatten(), other.flatten())):
            self.counts[row] += torch.bincount(labels, minlength=self.classes).cpu()

    def take_features(self, maps: Tensor) -> None:
        """Add the coarsest maps [B, C, ...] of some windows."""
        means = maps.detach().double().flatten(2).mean(dim=2).sum(dim=0).cpu()
        self.features = means if self.features is None else self.features + means
        self.windows += len(maps)

    def result(self) -> Uncertainty:
        """What was measured, once all pieces have gone by."""
        shared, first, second = self.counts[:, 1:].tolist()
        means = [] if self.features is None else (self.features / self.windows).tolist()
        return Uncertainty(
            label_distance(shared, first, second) if self.members else None,
            foreground_entropy(self.weighted, self.weight, self.classes),
            self.found,
            " ".join(f"{mean:.5g}" for mean in means),
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """What a prediction shall give beside labels."""

    maps: Sequence[str]
    folder: Path | None
    """Where the maps are while they are made, if not in memory."""
    meter: UncertaintyMeter | None


@contextmanager
def features_read(network: nn.Module, meter: UncertaintyMeter) -> Iterator[None]:
    """Have the coarsest feature map of every window that the network predicts taken."""
    own = next((part for part in network.modules() if isinstance(part, Network)), None)
    coarsest: list[Tensor] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        maps = output[-1] if isinstance(output, list | tuple) else output
        if not isinstance(maps, Tensor) or maps.ndim < 4:
            return
        if not coarsest or maps[0, 0].numel() <= coarsest[0][0, 0].numel():
            coarsest[:] = [maps]

    def take(_: nn.Module, __: Any, ___: Any) -> None:
        meter.take_features(coarsest.pop())

    # A network of another library has no encoder to ask; all of its layers are watched instead.
    watched = [own.encoder] if own else [*network.modules()][1:]
    handles = [part.register_forward_hook(keep) for part in watched]
    handles.append((own.encoder if own else network).register_forward_hook(take))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
