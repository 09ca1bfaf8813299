"""Algorithmic independence of CauSSL: filters of one network must not explain those of another."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.methods.parts.inner_optimizer import InnerOptimizer
from tracoco.settings import Settings


def dependence(own: Tensor, others: Tensor, combination: Tensor) -> Tensor:
    """Mean of the squared cosines between filters and combinations of other filters.

    1 where each filter points along its combination or against it, 0 where all are orthogonal.

    Args:
        own: filters of a layer, one a row, [N, D].
        others: filters of the same layer elsewhere, [M, D]; no gradient reaches them.
        combination: what each row takes of the others, [N, M].
    """
    with torch.autocast(own.device.type, enabled=False):
        explained = combination @ others.detach()
        return F.cosine_similarity(own, explained, dim=1).square().mean()


Pairs = Sequence[tuple[Tensor, Tensor]]
"""Of each layer the filters that learn and those that they are explained by, one filter a row."""
SMALL = 0.001
"""Deviation of the first combinations, as released."""
BETAS = (0.9, 0.999)


class IndependenceConfig(Settings):
    """Settings of the game, as in CauSSL's release but for the weight, which each method names."""

    every: PositiveInt = 60
    """Steps between two searches for the best combinations."""
    inner_steps: PositiveInt = 60
    """Steps of the search, on the combinations alone."""
    inner_rate: float = Field(default=0.02, gt=0)
    """Learning rate of the search's Adam."""


class Combinations(nn.Module):
    """Of each layer the linear combinations of others that explain its filters best."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self.layers = nn.ParameterList(
            SMALL * torch.randn(len(own), len(others)) for own, others in pairs
        )

    def forward(self, pairs: Pairs) -> Tensor:
        """How well the filters are explained, mean over layers."""
        layers = zip(pairs, self.layers, strict=True)
        return torch.stack([dependence(*pair, layer) for pair, layer in layers]).mean()


class Independence(nn.Module):
    """A search that makes filters explicable every so often, and a term that undoes it.

    No search and no term come before `first_step`.
    """

    def __init__(self, pairs: Pairs, config: IndependenceConfig, first_step: int) -> None:
        super().__init__()
        self.combinations = InnerOptimizer(Combinations(pairs), config.inner_rate, BETAS)
        self.config = config
        self.first_step = first_step

    def search(self, pairs: Pairs, step: int) -> None:
        """Find the best combinations for filters as they are, if this is a step to do so."""
        since = step - self.first_step
        if since < 0 or since % self.config.every:
            return
        fixed = [(own.detach(), others.detach()) for own, others in pairs]
        for _ in range(self.config.inner_steps):
            self.combinations.descend(lambda combinations: -combinations(fixed))

    def forward(self, pairs: Pairs, step: int) -> Tensor:
        """How well the last combinations explain the filters; 0 before there are any."""
        explained: Tensor = self.combinations.part(pairs)
        return explained * float(step >= self.first_step)


def filters(*modules: nn.Module) -> list[Tensor]:
    """Weights of all convolutions, one filter a row; those that double the resolution are not."""
    parts = (part for module in modules for part in module.modules())
    # A 1x1 convolution may be a matrix product.
    kinds = (nn.Conv2d, nn.Conv3d, nn.Linear)
    return [part.weight.flatten(1) for part in parts if isinstance(part, kinds)]
