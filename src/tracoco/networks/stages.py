"""How a network's maps follow one another: an encoder that halves, a decoder that doubles."""

from collections.abc import Callable, Iterable
from functools import partial

from torch import Tensor, nn

from tracoco.networks.recomputed import recomputed


class Stages(nn.Module):
    """Levels of a network, whose inner maps are kept for the backward pass or made again."""

    checkpointing = False
    """Keep the map behind each level alone: less memory, and each level is computed twice."""

    def run(self, compute: Callable[..., Tensor], *maps: Tensor) -> Tensor:
        """One level."""
        return recomputed(self, compute, *maps) if self.checkpointing else compute(*maps)


class Encoder(Stages):
    """Stages one after the other; each but the first halves the resolution."""

    def __init__(self, stages: Iterable[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, crops: Tensor) -> list[Tensor]:
        """The map behind each stage, fine to coarse."""
        maps = [crops]
        for stage in self.stages:
            maps.append(self.run(stage, maps[-1]))
        return maps[1:]


class Decoder(Stages):
    """From the coarsest map up: double, merge with the encoder's map of that size, convolve."""

    def __init__(
        self,
        ups: Iterable[nn.Module],
        blocks: Iterable[nn.Module],
        *,
        merge: Callable[[Tensor, Tensor], Tensor],
        dropout: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.ups = nn.ModuleList(ups)
        self.blocks = nn.ModuleList(blocks)
        self.merge = merge
        self.dropout = dropout or nn.Identity()

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        """The decoder's maps, coarse to fine; the last has the resolution of the crops.

        Args:
            features: the encoder's maps, fine to coarse.
        """
        maps = [features[-1]]
        skips = reversed(features[:-1])
        for level, (*_, skip) in enumerate(zip(self.ups, self.blocks, skips, strict=True)):
            maps.append(self.run(partial(self._rise, level), maps[-1], skip))
        return maps[1:]

    def _rise(self, level: int, below: Tensor, skip: Tensor) -> Tensor:
        risen: Tensor = self.blocks[level](self.merge(skip, self.ups[level](below)))
        return self.dropout(risen) if level == len(self.blocks) - 1 else risen
