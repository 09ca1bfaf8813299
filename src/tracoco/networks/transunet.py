"""TransUNet (Chen et al. 2021): convolutions, a transformer on their coarsest map, a decoder."""

from itertools import pairwise

from torch import Tensor, nn

from tracoco.networks.layers import Up, concatenate, interpolate
from tracoco.networks.network import Network
from tracoco.networks.resnet import root, stage
from tracoco.networks.stages import Decoder, Encoder
from tracoco.networks.transformer import Transformer

DEPTHS = (3, 4, 9)
LAYERS = 12
HEADS = 12
GRID = 14
"""Places along an axis of the positional embedding: those of the published 224 pixels."""
DROPOUT = 0.1


class TransUNet(Network):
    """The hybrid of ResNet-50 and ViT-B, at 16 filters in the published widths.

    It starts from random weights: none are shipped and none are downloaded, whereas the published
    results start from weights trained on ImageNet-21k. The finest map of the encoder has half the
    resolution of the crops, so the last level of the decoder has nothing to merge with.
    """

    dimensions = 2

    def __init__(self, channels: int, classes: int, filters: int) -> None:
        half, quarter, eighth, sixteenth = (filters * factor for factor in (4, 16, 32, 64))
        hidden = 48 * filters
        transformer = Transformer(
            sixteenth, hidden, layers=LAYERS, heads=HEADS, grid=GRID, dropout=DROPOUT
        )
        encoder = Encoder(
            [
                root(channels, half),
                nn.Sequential(nn.MaxPool2d(3, 2, padding=1), stage(half, quarter, DEPTHS[0], 1)),
                stage(quarter, eighth, DEPTHS[1], 2),
                nn.Sequential(stage(eighth, sixteenth, DEPTHS[2], 2), transformer),
            ]
        )
        widths = (half, quarter, eighth, hidden)
        head = nn.Conv2d(filters, classes, kernel_size=3, padding=1)
        super().__init__(encoder, _decoder(widths, filters, "linear"), head, widths)

    @property
    def decoder_channels(self) -> tuple[int, ...]:
        """Other widths than the encoder's, and one level more."""
        return _decoder_widths(self.feature_channels[0] // 4)

    def make_decoder(self, up: Up) -> Decoder:
        """A transposed convolution keeps the channels, as interpolation does."""
        return _decoder(self.feature_channels, self.decoder_channels[-1], up)


class CascadedUpsampler(Decoder):
    """A decoder that doubles once more than the encoder has maps for."""

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        """The decoder's maps, coarse to fine; the last has the resolution of the crops."""
        count, _, *size = features[0].shape
        nothing = features[0].new_empty(count, 0, *[2 * length for length in size])
        return super().forward([nothing, *features])


def _decoder_widths(filters: int) -> tuple[int, ...]:
    return tuple(filters * factor for factor in (16, 8, 4, 1))


def _decoder(features: tuple[int, ...], filters: int, up: Up) -> Decoder:
    *skips, hidden = features
    inner = 32 * filters
    widths = _decoder_widths(filters)
    inputs = [inner, *widths[:-1]]
    ups = [_double(width, up) for width in inputs]
    ups[0] = nn.Sequential(_activated(hidden, inner), ups[0])
    blocks = [
        nn.Sequential(*[_activated(*pair) for pair in pairwise((risen + skip, width, width))])
        for risen, skip, width in zip(inputs, [*reversed(skips), 0], widths, strict=True)
    ]
    return CascadedUpsampler(ups, blocks, merge=concatenate)


def _double(width: int, up: Up) -> nn.Module:
    if up == "transpose":
        return nn.ConvTranspose2d(width, width, kernel_size=2, stride=2)
    return interpolate(up, 2, align_corners=True)  # as published


def _activated(channels: int, width: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True))
