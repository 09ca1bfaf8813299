"""A method under test: how it is built on small networks, and the random crops that it sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tracoco.data.batch import Batch, Crops
from tracoco.errors import UserError
from tracoco.methods import METHODS, MethodRow, method_class, method_row
from tracoco.methods.method import Method, NetworkFactory, RunFacts
from tracoco.networks import build_network
from tracoco.settings import checked

STEPS = 30
"""Length of the run that a method is told of; ramps end there."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A method, its row, and the settings that it is tested with."""

    name: str
    method: type[Method]
    row: MethodRow
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        method: type[Method] | str,
        row: MethodRow | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "Subject":
        """The method of this class, or of this name in the table."""
        if isinstance(method, str):
            return cls(method, method_class(method), row or method_row(method), settings or {})
        target = f"{method.__module__}:{method.__qualname__}"
        found = {name: each for name, each in METHODS.items() if each.target == target}
        if row is None and not found:
            raise UserError(
                f"{method.__name__} is not registered; give its row: row=MethodRow(...)"
            )
        name = next(iter(found), method.__name__)
        return cls(name, method, row or found[name], settings or {})

    def make(
        self,
        dimensions: int = 3,
        classes: int = 2,
        *,
        unlabelled_batch: int = 2,
        network: NetworkFactory | None = None,
        **settings: Any,
    ) -> Method:
        """The method with the same first weights at each call.

        Args:
            dimensions: 2 or 3.
            classes: of the labels, the background among them.
            unlabelled_batch: unlabelled crops of a batch.
            network: what the method calls for a network; a small one in which no crop depends on
                the others of its batch if it is not given.
            settings: of the method, beside those of the subject.
        """
        facts = RunFacts(
            classes,
            channels=1,
            dimensions=dimensions,
            total_steps=STEPS,
            steps_per_epoch=1,
            unlabelled_batch=unlabelled_batch,
        )
        torch.manual_seed(0)
        network = network or small_network(dimensions, classes)
        values = {**self.settings, **settings}
        return self.method(
            checked(self.method.Config, values, f"method {self.name}"), network, facts
        )

    def batch(
        self,
        dimensions: int = 3,
        classes: int = 2,
        *,
        seed: int = 0,
        crops: tuple[int, int] = (2, 2),
    ) -> Batch:
        """Random crops, with what the row says that the method learns from and no more."""
        labelled, unlabelled = crops
        if not self.row.trained_by_unlabelled:
            unlabelled = 0
        made = make_batch(dimensions, classes, labelled=labelled, unlabelled=unlabelled, seed=seed)
        return made if self.row.pseudo_labels else replace(made, pseudo_labels=None)


def small_network(dimensions: int, classes: int) -> NetworkFactory:
    """Makes light networks of four filters, without a layer that mixes the crops of a batch."""
    return partial(
        build_network,
        name="light-unet",
        channels=1,
        classes=classes,
        dimensions=dimensions,
        filters=4,
        normalisation="instance",
        decoder="pointwise",
    )


class PointwiseNetwork(nn.Module):
    """A network that sees each voxel alone and gives no feature maps."""

    def __init__(self, dimensions: int, classes: int) -> None:
        super().__init__()
        convolution = nn.Conv2d if dimensions == 2 else nn.Conv3d
        self.hidden, self.head = convolution(1, 8, 1), convolution(8, classes, 1)
        with torch.no_grad():  # it is sure of what it predicts, so that small changes show
            for parameter in self.parameters():
                parameter.mul_(5)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        logits: Tensor = self.head(self.hidden(crops).relu())
        return logits


def make_batch(
    dimensions: int = 3,
    classes: int = 2,
    *,
    labelled: int = 2,
    unlabelled: int = 2,
    seed: int = 0,
    size: tuple[int, ...] = (16, 16, 16),
) -> Batch:
    """Random crops with places that overlap; no files needed."""
    random = torch.Generator().manual_seed(seed)
    size = size[:dimensions]
    count = labelled + unlabelled

    def crops(shift: int) -> Crops:
        return Crops(
            values=torch.rand(count, 1, *size, generator=random),
            valid=torch.ones(count, *size, dtype=torch.bool),
            start=tuple((4 + shift,) * dimensions for _ in range(count)),
        )

    return Batch(
        first=crops(0),
        second=crops(3),
        labels=torch.randint(classes, (labelled, *size), generator=random),
        cases=tuple(f"case{index}" for index in range(count)),
        pseudo_labels=torch.randint(classes, (unlabelled, *size), generator=random),
    )


def with_padding(batch: Batch, below: int) -> Batch:
    """The same batch in which all before a place of the volume, along its first axis, is padding.

    As in a scan, a voxel that two crops have in common is padding in both or in none.
    """

    def padded(crops: Crops) -> Crops:
        valid = crops.valid.clone()
        for crop, start in zip(valid, crops.start, strict=True):
            crop[: max(0, below - start[0])] = False
        return replace(crops, valid=valid)

    return replace(batch, first=padded(batch.first), second=padded(batch.second))


def with_undrawn(batch: Batch) -> Batch:
    """The same batch in which nobody has drawn every second slice of the labelled crops' volumes.

    As in a scan, a voxel that two crops have in common is drawn in both or in none.
    """

    def marked(crops: Crops) -> Crops:
        valid = crops.valid.clone()
        for crop, start in zip(valid[: batch.labelled_count], crops.start, strict=False):
            crop[start[0] % 2 :: 2] = False
        return replace(crops, valid=valid)

    return replace(batch, first=marked(batch.first), second=marked(batch.second))


def without_labelled_voxels(batch: Batch) -> Batch:
    """The same batch with the labelled crops declared padding: only unlabelled voxels teach."""

    def padded(crops: Crops) -> Crops:
        valid = crops.valid.clone()
        valid[: batch.labelled_count] = False
        return replace(crops, valid=valid)

    return replace(batch, first=padded(batch.first), second=padded(batch.second))
