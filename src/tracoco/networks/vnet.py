"""The paper's VNet: added skips, batch normalisation, 9.4 million weights at 16 filters."""

from itertools import pairwise

from torch import nn

from tracoco.networks.network import Decoder, Encoder, Network, Up, add, interpolate, level_widths

ENCODER_DEPTHS = (1, 2, 3, 3, 3)
DECODER_DEPTHS = (3, 3, 2, 1)
DROPOUT = 0.5
"""Fraction of whole channels, after the coarsest block and after the last one."""


class VNet(Network):
    """The network of the Left Atrium and Pancreas experiments: no residual sums inside a block."""

    dimensions = 3
    own_up = "transpose"

    def __init__(self, channels: int, classes: int, filters: int) -> None:
        widths = level_widths(filters, len(ENCODER_DEPTHS))
        encoder = _encoder(channels, widths)
        head = nn.Conv3d(filters, classes, kernel_size=1)
        super().__init__(encoder, _decoder(widths, self.own_up), head, widths)

    def make_decoder(self, up: Up) -> Decoder:
        """Interpolation brings no weights of its own, so a 3x3x3 convolution follows it."""
        return _decoder(self.feature_channels, up)


def _encoder(channels: int, widths: tuple[int, ...]) -> Encoder:
    stages = [_block(channels, widths[0], ENCODER_DEPTHS[0])]
    for (fine, coarse), depth in zip(pairwise(widths), ENCODER_DEPTHS[1:], strict=True):
        halve = nn.Conv3d(fine, coarse, kernel_size=2, stride=2)
        stages.append(nn.Sequential(_activated(coarse, halve), _block(coarse, coarse, depth)))
    stages[-1].append(nn.Dropout3d(DROPOUT))
    return Encoder(stages)


def _decoder(widths: tuple[int, ...], up: Up) -> Decoder:
    pairs = list(pairwise(reversed(widths)))
    return Decoder(
        [_double(coarse, fine, up) for coarse, fine in pairs],
        [_block(fine, fine, depth) for (_, fine), depth in zip(pairs, DECODER_DEPTHS, strict=True)],
        merge=add,
        dropout=nn.Dropout3d(DROPOUT),
    )


def _double(coarse: int, fine: int, up: Up) -> nn.Sequential:
    if up == "transpose":
        return _activated(fine, nn.ConvTranspose3d(coarse, fine, kernel_size=2, stride=2))
    return _activated(fine, interpolate(up, 3), nn.Conv3d(coarse, fine, 3, padding=1))


def _block(channels: int, width: int, depth: int) -> nn.Sequential:
    """As many convolutions as `depth`; the first goes from `channels` to `width`."""
    inputs = (channels, *[width] * (depth - 1))
    return nn.Sequential(*[_activated(width, nn.Conv3d(n, width, 3, padding=1)) for n in inputs])


def _activated(width: int, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.BatchNorm3d(width), nn.ReLU(inplace=True))
