"""The contract between a method and everything else."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.supervised import COMMON, supervised_loss
from tracoco.methods.health import PseudoLabelHealth
from tracoco.settings import LossConfig, Settings

NetworkFactory = Callable[..., nn.Module]
"""Builds the run's network, with fresh weights; or another one for its crops, if it is given a
`name`, and if need be `options`, as they stand in the settings of a network."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a method may know of the run it is built for."""

    classes: int
    channels: int
    dimensions: int
    total_steps: int
    steps_per_epoch: int
    unlabelled_batch: int
    """Unlabelled crops of each batch."""
    intensity_range: float = 1.0
    """Width from dark to bright intensities of a scan; noise is given as a fraction of it."""
    intensity_limits: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest intensity that a scan can have."""
    loss: LossConfig = COMMON
    """The form of the supervised loss."""
    class_voxels: tuple[int, ...] = ()
    """Voxels of each class in all labelled scans, background first; empty where no scans are at
    hand, as in a prediction."""


class StepOutput(NamedTuple):
    """What a method computed in one step. `DistributedDataParallel` finds the tensors in it."""

    terms: dict[str, Tensor]
    """Weighted loss terms by name; the trainer minimises their sum and logs each."""
    pseudo_labels: tuple[Tensor, ...] = ()
    """What `health` judges, without gradient and in an order that is the method's own: mostly the
    class probabilities of the unlabelled crops from each network, [B, C, ...]."""


class Method(nn.Module, ABC):
    """One way to learn from labelled and unlabelled crops.

    Networks, teachers, heads and memory banks are sub-modules or buffers, so that a checkpoint is
    complete for free and `DistributedDataParallel` wraps the method as a whole. All else that a
    step computes is in its `StepOutput`: nothing is left on the method.
    """

    Config: ClassVar[type[Settings]]
    idle_networks: ClassVar[bool] = False
    """Whether some steps leave a trained network out, so that it has no gradient."""

    network: nn.Module
    """The only network of a method that has one."""
    networks: nn.ModuleList
    """Those of a method that has several; the first is the one that predicts."""
    pretrain_steps: int = 0
    """Steps of a first stage that learns from labelled crops alone, of methods that have one."""
    labelled_terms: ClassVar[frozenset[str]] = frozenset({"supervised"})
    """Loss terms that come from labels alone; the trainer may let all others count less."""
    adaptive: ClassVar[bool] = True
    """Whether `training.unlabelled_weight: adaptive` applies: not to what unlabelled crops teach
    without pseudo-labels of this run's own networks."""

    loss: LossConfig = COMMON
    """The form of the supervised loss; `build_method` sets that of the run."""

    @abstractmethod
    def forward(self, batch: Batch, step: int) -> StepOutput:
        """The weighted loss terms of a batch, and the pseudo-labels behind them."""

    def before_step(self, batch: Batch, step: int) -> None:
        """Called before the main optimizer's step, e.g. to step an inner optimizer."""

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Called once the optimizer has moved the modules, e.g. to move an EMA teacher."""

    def labelled_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """The supervised loss of the labelled crops, which come first in `logits`."""
        labelled = slice(batch.labelled_count)
        valid = batch.first.valid[labelled]
        return supervised_loss(logits[labelled], batch.labels, valid, self.loss)

    def labelled_losses(self, predictions: Sequence[Tensor], batch: Batch) -> Tensor:
        """Eq. (2): the supervised losses of several networks, summed."""
        return torch.stack([self.labelled_loss(logits, batch) for logits in predictions]).sum()

    def inference_network(self) -> nn.Module:
        """The network that is used at test time; export and fast inference may rearrange it.

        The only network, or the first of several, unless a method says otherwise.
        """
        return self._own_networks()[0]

    def predict(self, crops: Tensor) -> Tensor:
        """Class probabilities [B, C, ...], as used at test time."""
        logits: Tensor = self.inference_network()(crops)
        return logits.float().softmax(dim=1)

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Class probabilities: the prediction first, and last the two whose disagreement counts."""
        if "networks" not in self._modules:
            return [self.predict(crops)]
        return [network(crops).float().softmax(dim=1) for network in self.networks]

    @property
    def has_members(self) -> bool:
        """Whether `predict_members` gives two predictions that can be compared."""
        own = type(self).predict_members is not Method.predict_members
        return own or "networks" in self._modules

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """What tells whether the pseudo-labels that `forward` made of the batch are sound."""
        return PseudoLabelHealth()

    @property
    def advice(self) -> str:
        """What to change when the pseudo-labels lose a structure; warnings end with it."""
        return "let them count less, or later; `tracoco methods NAME` has the settings for it"

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What the main optimizer owns: one group a network, since gradients are clipped by it."""
        networks = (list(network.parameters()) for network in self.trained_networks())
        return [{"params": parameters} for parameters in networks]

    def trained_networks(self) -> list[nn.Module]:
        """The networks that the main optimizer moves; all of them by default."""
        return self._own_networks()

    def _own_networks(self) -> list[nn.Module]:
        return list(self.networks) if "networks" in self._modules else [self.network]


class MeanOfNetworks(nn.Module):
    """Networks that predict together, so that they predict, and are saved, like one."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        return torch.stack([network(crops).float() for network in self.networks]).mean(dim=0)


def unlabelled_probabilities(batch: Batch, *predictions: Tensor) -> tuple[Tensor, ...]:
    """Class probabilities of the unlabelled crops, without gradient, from logits of all crops."""
    unlabelled = slice(batch.labelled_count, None)
    return tuple(logits[unlabelled].detach().softmax(dim=1) for logits in predictions)


def uniform_noise(crops: Tensor, amount: float) -> Tensor:
    """Crops with uniform noise in [-amount, amount] added, the xi of Eq. (2)."""
    if amount == 0:
        return crops
    return crops + torch.empty_like(crops).uniform_(-amount, amount)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without gradient and as at test time: dropout off, BatchNorm by its running statistics."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode
