"""The convolutions of a ResNet-50 down to a 16th of the resolution, as TransUNet begins with."""

from math import gcd

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
