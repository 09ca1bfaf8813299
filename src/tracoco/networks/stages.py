"""How a network's maps follow one another: an encoder that halves, a decoder that doubles."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn


class Encoder(nn.Module):
    """Stages one after the other; each but the first halves the resolution."""

    def __init__(self, stages: Iterable[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, crops: Tensor) -> list[Tensor]:
        """The map behind each stage, fine to coarse."""
        maps = [crops]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        return maps[1:]


class Decoder(nn.Module):
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
        for up, block, skip in zip(self.ups, self.blocks, skips, strict=True):
            maps.append(block(self.merge(skip, up(maps[-1]))))
        return [*maps[1:-1], self.dropout(maps[-1])]
