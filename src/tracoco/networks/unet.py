"""The paper's two UNets: concatenated skips, two convolutions a level, max-pooling in between."""

from collections.abc import Callable
from itertools import pairwise

from torch import nn

from tracoco.networks.network import (
    Decoder,
    Encoder,
    Network,
    Up,
    concatenate,
    interpolate,
    level_widths,
)

LEVELS = 5
DROPOUT_3D = 0.3
"""Fraction of single values, behind the coarsest block and behind the last one."""
DROPOUT_2D = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Between the two convolutions of each encoder level, fine to coarse; none in the decoder."""


class UNet3D(Network):
    """The network of the BraTS experiments.

    Instance normalisation has no weights and no running statistics, so training and test differ
    by dropout alone.
    """

    dimensions = 3

    def __init__(self, channels: int, classes: int, filters: int) -> None:
        widths = level_widths(filters, LEVELS)
        blocks = [_block_3d(n, width) for n, width in pairwise((channels, *widths))]
        blocks[-1].append(nn.Dropout(DROPOUT_3D))
        encoder = Encoder(_pooled(blocks, nn.MaxPool3d))
        head = nn.Conv3d(filters, classes, kernel_size=1)
        super().__init__(encoder, _decoder_3d(widths, "linear"), head, widths)
        encoder.apply(_initialise_3d)
        head.apply(_initialise_3d)

    def make_decoder(self, up: Up) -> Decoder:
        """A transposed convolution halves the channels, interpolation keeps them all."""
        return _decoder_3d(self.feature_channels, up)


class UNet2D(Network):
    """The network of the ACDC experiments, with batch normalisation."""

    dimensions = 2

    def __init__(self, channels: int, classes: int, filters: int) -> None:
        widths = level_widths(filters, LEVELS)
        pairs = pairwise((channels, *widths))
        blocks = [_block_2d(*pair, p) for pair, p in zip(pairs, DROPOUT_2D, strict=True)]
        encoder = Encoder(_pooled(blocks, nn.MaxPool2d))
        head = nn.Conv2d(filters, classes, kernel_size=3, padding=1)
        super().__init__(encoder, _decoder_2d(widths, "linear"), head, widths)

    def make_decoder(self, up: Up) -> Decoder:
        """A 1x1 convolution halves the channels before they are interpolated."""
        return _decoder_2d(self.feature_channels, up)


def _pooled(blocks: list[nn.Sequential], pool: Callable[[int], nn.Module]) -> list[nn.Module]:
    return [blocks[0], *[nn.Sequential(pool(2), block) for block in blocks[1:]]]


def _decoder_3d(widths: tuple[int, ...], up: Up) -> Decoder:
    pairs = list(pairwise(reversed(widths)))
    if up == "transpose":
        ups: list[nn.Module] = [nn.ConvTranspose3d(a, b, kernel_size=2, stride=2) for a, b in pairs]
        blocks = [_block_3d(2 * fine, fine) for _, fine in pairs]
    else:
        ups = [interpolate(up, 3) for _ in pairs]
        blocks = [_block_3d(fine + coarse, fine) for coarse, fine in pairs]
    decoder = Decoder(ups, blocks, merge=concatenate, dropout=nn.Dropout(DROPOUT_3D))
    return decoder.apply(_initialise_3d)


def _decoder_2d(widths: tuple[int, ...], up: Up) -> Decoder:
    pairs = list(pairwise(reversed(widths)))
    ups = [_double_2d(coarse, fine, up) for coarse, fine in pairs]
    blocks = [_block_2d(2 * fine, fine, 0.0) for _, fine in pairs]
    return Decoder(ups, blocks, merge=concatenate)


def _double_2d(coarse: int, fine: int, up: Up) -> nn.Module:
    if up == "transpose":
        return nn.ConvTranspose2d(coarse, fine, kernel_size=2, stride=2)
    narrow = nn.Conv2d(coarse, fine, kernel_size=1)
    return nn.Sequential(narrow, interpolate(up, 2, align_corners=True))  # as released


def _block_3d(channels: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (channels, width):
        layers += [nn.Conv3d(inputs, width, 3, padding=1), nn.InstanceNorm3d(width)]
        layers += [nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def _block_2d(channels: int, width: int, dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (channels, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width)]
        layers += [nn.LeakyReLU(0.01, inplace=True), nn.Dropout(dropout)]
    return nn.Sequential(*layers[:-1])


def _initialise_3d(module: nn.Module) -> None:
    if isinstance(module, nn.Conv3d):
        nn.init.kaiming_normal_(module.weight)
