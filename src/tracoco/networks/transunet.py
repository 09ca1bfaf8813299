"""TransUNet (Chen et al. 2021): convolutions, a transformer on their coarsest map, a decoder."""

from itertools import pairwise
from math import gcd

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.networks.network import Decoder, Encoder, Network, Up, concatenate, interpolate

MOST_GROUPS = 32


class StandardisedConvolution(nn.Conv2d):
    """A convolution whose kernels have mean 0 and variance 1 (Qiao et al. 2019)."""

    def forward(self, maps: Tensor) -> Tensor:
        """[B, C, X, Y] to [B, C', X / stride, Y / stride]."""
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, correction=0)
        weight = (self.weight - mean) / torch.sqrt(variance + 1e-5)
        return F.conv2d(maps, weight, None, self.stride, self.padding)


class Bottleneck(nn.Module):
    """Narrow, convolve, widen, and add the input."""

    def __init__(self, channels: int, width: int, stride: int = 1) -> None:
        super().__init__()
        narrow = width // 4
        self.body = nn.Sequential(
            *_normalised(channels, narrow, 1),
            nn.ReLU(inplace=True),
            *_normalised(narrow, narrow, 3, stride),
            nn.ReLU(inplace=True),
            *_normalised(narrow, width, 1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if channels != width:
            project = StandardisedConvolution(channels, width, 1, stride, bias=False)
            self.shortcut = nn.Sequential(project, nn.GroupNorm(width, width))

    def forward(self, maps: Tensor) -> Tensor:
        """[B, C, X, Y] to [B, width, X / stride, Y / stride]."""
        return F.relu(self.shortcut(maps) + self.body(maps))


def root(channels: int, width: int) -> nn.Sequential:
    """From crops to half their resolution."""
    return nn.Sequential(*_normalised(channels, width, 7, stride=2), nn.ReLU(inplace=True))


def stage(channels: int, width: int, depth: int, stride: int) -> nn.Sequential:
    """As many bottlenecks as `depth`; the first brings width and stride."""
    first = Bottleneck(channels, width, stride)
    return nn.Sequential(first, *[Bottleneck(width, width) for _ in range(depth - 1)])


def _normalised(channels: int, width: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    convolution = StandardisedConvolution(
        channels, width, kernel, stride, padding=kernel // 2, bias=False
    )
    return [convolution, nn.GroupNorm(gcd(MOST_GROUPS, width), width, eps=1e-6)]


EPSILON = 1e-6


class Transformer(nn.Module):
    """Each place of a map becomes a token; all tokens see one another in every layer."""

    def __init__(
        self, channels: int, hidden: int, *, layers: int, heads: int, grid: int, dropout: float
    ) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, hidden, kernel_size=1)
        self.places = nn.Parameter(torch.zeros(1, hidden, grid, grid))
        """What a token knows of its place, on a grid that is stretched over maps of other sizes."""
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, EPSILON)

    def forward(self, maps: Tensor) -> Tensor:
        """[B, C, X, Y] to [B, hidden, X, Y]."""
        size = maps.shape[2:]
        places = F.interpolate(self.places, size=size, mode="bilinear")
        tokens = self.dropout((self.project(maps) + places).flatten(2).transpose(1, 2))
        for layer in self.layers:
            tokens = layer(tokens)
        attended: Tensor = self.norm(tokens).transpose(1, 2).unflatten(2, size)
        return attended


class Layer(nn.Module):
    """Attention, then two linear layers a token; each adds to what was there."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(hidden, EPSILON), Attention(hidden, heads))
        self.think = nn.Sequential(
            nn.LayerNorm(hidden, EPSILON),
            nn.Linear(hidden, 4 * hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * hidden, hidden),
            nn.Dropout(dropout),
        )
        self.apply(_initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, tokens, hidden] in and out."""
        tokens = tokens + self.attend(tokens)
        thought: Tensor = tokens + self.think(tokens)
        return thought


class Attention(nn.Module):
    """Each token takes the mean of all, weighted by how well their keys match its query."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.enter = nn.Linear(hidden, 3 * hidden)
        self.leave = nn.Linear(hidden, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, tokens, hidden] in and out."""
        parts = self.enter(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts.unbind())
        left: Tensor = self.leave(attended.transpose(1, 2).flatten(2))
        return left


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


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
