"""Cross-ALD (Nguyen-Duc et al., MICCAI 2023): withstand a whole set of adversarial mixtures."""

from dataclasses import dataclass

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.distributions import Beta

from tracoco.losses.consistency import prediction_distance
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.parts.adversarial import crop_lengths, random_directions, unit_length
from tracoco.methods.parts.cutmix import draw_partners
from tracoco.methods.ss_net import Smoothness, SSNet, SSNetConfig
from tracoco.networks.statistics import frozen_statistics


def stein_directions(particles: Tensor, scores: Tensor, variances: Tensor) -> Tensor:
    """Where each particle goes: along the scores of all that are near, and away from them.

    phi_n = 1/N sum_m [k(x_m, x_n) s_m + grad_m k(x_m, x_n)], with the Gaussian kernel
    k(x, y) = exp(-|x - y|^2 / (2 variance)) among the particles of one crop.

    Args:
        particles: perturbations, [N, B, ...].
        scores: where the distance of predictions grows fastest at each of them, [N, B, ...].
        variances: of the kernel of each crop, [B].
    """
    with torch.autocast(particles.device.type, enabled=False):
        places, pulls = (each.flatten(2).transpose(0, 1) for each in (particles, scores))
        width = variances.reshape(-1, 1, 1)
        kernel = torch.exp(-_squared_distances(places) / (2 * width))
        crowd = kernel.sum(dim=2, keepdim=True)
        repelled = (crowd * places - kernel @ places) / width
        directions = (kernel @ pulls + repelled) / len(particles)
    return directions.transpose(0, 1).reshape(particles.shape)


def median_variances(particles: Tensor) -> Tensor:
    """The median of the squared distances between the particles of each crop, [B].

    So that neighbours are felt, however many dimensions there are; 1 for a particle alone.
    """
    count = len(particles)
    if count == 1:
        return torch.ones(particles.shape[1], device=particles.device)
    squared = _squared_distances(particles.flatten(2).transpose(0, 1))
    # Behind each distance of a particle to itself come `count` others, up to the next such one.
    pairs = squared.flatten(1)[:, 1:].reshape(-1, count - 1, count + 1)[..., :-1]
    return pairs.flatten(1).median(dim=1).values.clamp(min=1e-12)


def _squared_distances(places: Tensor) -> Tensor:
    """Between all particles of each crop, from [B, N, D] to [B, N, N]."""
    return torch.cdist(places, places).square()


PARTICLES = {2: 4, 3: 2}


class CrossALDConfig(SSNetConfig):
    """Settings of `cross-ald`; those of `ss-net`, whose code it stands on, and two more.

    Its own code is not public, and neither are the values of these two.
    """

    particles: PositiveInt | None = None
    """Adversarial changes of each crop; 4 in 2D and 2 in 3D if not given, as each costs two more
    passes."""
    mixing: float = Field(default=1.0, gt=0)
    """Alpha of the Beta distribution that shares of a mixture are drawn from; at 1 all are equally
    likely."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """How much of each crop a mixture keeps, and which crop gives the rest."""

    partner: Tensor
    """[B]."""
    fraction: Tensor
    """[B]."""

    def __call__(self, values: Tensor) -> Tensor:
        """Mix crops or probabilities [B, C, ...]."""
        fraction = self.fraction.reshape(-1, *[1] * (values.ndim - 1))
        return fraction * values + (1 - fraction) * values[self.partner]


class CrossALD(SSNet):
    """SS-Net with several adversarial changes of each crop, mixed with those of another crop."""

    Config = CrossALDConfig
    name = "cross-ald"

    def __init__(
        self, config: CrossALDConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, build_network, facts)
        self.particles = config.particles or PARTICLES[facts.dimensions]
        self.mixing = config.mixing

    def smoothness(self, crops: Tensor, prediction: Tensor, valid: Tensor) -> Smoothness:
        """Mean distance of predictions of mixed, changed crops from the mixed predictions."""
        crossing = draw_crossing(len(crops), self.mixing, crops.device)
        target, both = crossing(prediction), valid & valid[crossing.partner]
        lengths = crop_lengths(valid, crops.shape[1], self.radius)
        distances = []
        with frozen_statistics(self.network):
            for direction in self.directions(crops, prediction, valid):
                changed = crossing(crops + lengths * unit_length(direction, valid))
                moved = self.network(changed).float().softmax(dim=1)
                distances.append(prediction_distance(moved, target, both))
        return Smoothness(torch.stack(distances).mean(), target, moved.detach())

    def directions(self, crops: Tensor, prediction: Tensor, valid: Tensor) -> Tensor:
        """One step of all particles of each crop, [N, B, C, ...].

        The paper weighs the score against the push between particles by constants that are not
        public: here scores have length one, as the particles have that keep apart.
        """
        starts = [random_directions(crops, valid) for _ in range(self.particles)]
        scores = [
            unit_length(self.score(start, crops, prediction, valid), valid) for start in starts
        ]
        places = torch.stack(starts)
        return stein_directions(places, torch.stack(scores), median_variances(places))


def draw_crossing(count: int, mixing: float, device: torch.device) -> Crossing:
    """A fraction for each crop, and a partner that is never the crop itself."""
    fraction = Beta(mixing, mixing).sample((count,))
    return Crossing(draw_partners(count).to(device), fraction.to(device))
