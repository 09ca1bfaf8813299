"""URPC (Luo et al., MICCAI 2021): uncertainty-rectified consistency of a decoder's levels."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.losses.weighting import masked_mean, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.decoders import at_crop_size, level_heads
from tracoco.networks.network import Network, with_features
from tracoco.settings import Settings


def pyramid_loss(logits: Sequence[Tensor], valid: Tensor) -> Tensor:
    """How far the levels are from their mean, less where a level is unsure; a mean over levels.

    A level's uncertainty is the Kullback-Leibler divergence of the mean from it. Squared distances
    are weighted by its negative exponential, and it is itself minimised. The gradient reaches
    each level directly and through the mean.

    Args:
        logits: what each level says of the same crops, resized to them, [B, C, ...].
        valid: false where the crops are padding, [B, ...].
    """
    logs = [each.log_softmax(dim=1) for each in logits]
    # Of logarithms throughout: a class that all levels rule out has none that is finite otherwise.
    log_mean = torch.stack(logs).logsumexp(dim=0) - math.log(len(logs))
    return torch.stack([_rectified(own, log_mean, valid) for own in logs]).mean()


def _rectified(log_probability: Tensor, log_mean: Tensor, valid: Tensor) -> Tensor:
    mean = log_mean.exp()
    uncertainty = (mean * (log_mean - log_probability)).sum(dim=1)
    trust = torch.exp(-uncertainty)
    distance = (mean - log_probability.exp()).square().mean(dim=1)
    rectified = masked_mean(distance * trust, valid) / (masked_mean(trust, valid) + 1e-8)
    return rectified + masked_mean(uncertainty, valid)


CHANNEL_DROPOUT = (0.5, 0.3, 0.2)
"""Fractions of the maps of coarse levels that are dropped in 3D, coarsest first."""


class URPCConfig(Settings):
    """Settings of `urpc`, by default those of its releases.

    Those releases halve the supervised loss; here it is the same in every method, so that a
    comparison has one thing less to explain.
    """

    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of the consistency between levels; 0.1 in the release, beside half of the
    supervised loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    perturb: bool = True
    """Whether coarse levels see perturbed maps during training."""


class Pyramid(nn.Module):
    """A network with a head on every level of its decoder."""

    def __init__(self, network: Network, classes: int, *, perturb: bool) -> None:
        super().__init__()
        self.network = network
        self.perturb = perturb
        self.heads = level_heads(network.decoder_channels[:-1], classes, network.dimensions)
        if not self.heads:
            raise UserError(
                "method 'urpc' compares the levels of a decoder, but this one has a single level; "
                "set network.strides to more levels, or use another network or method"
            )

    def forward(self, crops: Tensor) -> list[Tensor]:
        """Logits of each level, resized to the crops; the network's own come last."""
        *coarse, fine = self.network.decode_levels(self.network.encode(crops))
        predictions = [
            at_crop_size(head(self._seen(maps, level)), crops.shape[2:])
            for level, (head, maps) in enumerate(zip(self.heads, coarse, strict=True))
        ]
        return [*predictions, self.network.head(fine).float()]

    def _seen(self, maps: Tensor, level: int) -> Tensor:
        """What the head of a coarse level sees of its maps; level 0 is the coarsest."""
        if not (self.training and self.perturb):
            return maps
        if self.network.dimensions == 3:
            # The release does so within the decoder, which would have to be another one.
            return F.dropout3d(maps, CHANNEL_DROPOUT[min(level, len(CHANNEL_DROPOUT) - 1)])
        if level == 0:
            return F.dropout(maps, 0.5)
        return multiply_noise(maps) if level == len(self.heads) - 1 else drop_salient(maps)


class URPC(Method):
    """One network; on unlabelled crops all levels of its decoder must agree with their mean."""

    Config = URPCConfig

    def __init__(self, config: URPCConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.config = config
        network = with_features(build_network(), "urpc")
        self.pyramid = Pyramid(network, facts.classes, perturb=config.perturb)
        self.rampup_steps = config.rampup_steps or facts.total_steps

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """The mean of the levels' supervised losses, and their distance to their mean."""
        unlabelled = slice(batch.labelled_count, None)
        levels = self.pyramid(batch.first.values)
        predictions = [logits[unlabelled] for logits in levels]
        supervised = [self.labelled_loss(logits, batch) for logits in levels]
        weight = self.config.unsupervised_weight * sigmoid_rampup(step, self.rampup_steps)
        terms = {
            "supervised": torch.stack(supervised).mean(),
            "consistency": weight * pyramid_loss(predictions, batch.first.valid[unlabelled]),
        }
        probabilities = torch.stack(unlabelled_probabilities(batch, *levels))
        return StepOutput(terms, (probabilities[-1], probabilities.mean(dim=0)))

    def inference_network(self) -> nn.Module:
        """The network with its own head alone."""
        return self.pyramid.network

    def trained_networks(self) -> list[nn.Module]:
        """The network with all heads."""
        return [self.pyramid]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the mean's labels, and how far the finest level is from it."""
        finest, mean = output.pseudo_labels
        return pair_health(mean, (finest, mean), batch.first.valid[batch.labelled_count :])


def drop_salient(maps: Tensor) -> Tensor:
    """Maps [B, C, ...] without their strongest places.

    Those whose mean over the channels is above a fraction of the crop's largest one; the fraction
    is drawn between 0.7 and 0.9 for all crops.
    """
    strength = maps.detach().mean(dim=1, keepdim=True)
    largest = strength.flatten(1).amax(dim=1).reshape(-1, *[1] * (maps.ndim - 1))
    fraction = torch.empty((), device=maps.device).uniform_(0.7, 0.9)
    return maps * (strength < fraction * largest)


def multiply_noise(maps: Tensor) -> Tensor:
    """Maps [B, C, ...] times 1 + noise, uniform in [-0.3, 0.3] and the same for every crop."""
    return maps * (1 + torch.empty_like(maps[0]).uniform_(-0.3, 0.3))
