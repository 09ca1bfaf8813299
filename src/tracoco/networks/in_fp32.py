"""Layers that are computed in fp32 while autocast computes all others in half precision."""

import torch
from torch import Tensor, nn


class InFp32:
    """A layer's forward pass without autocast.

    It takes the place of the layer's own `forward`: a module around the layer would rename its
    weights. A deep copy of the layer has a deep copy of it.
    """

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def __call__(self, maps: Tensor, *arguments: object) -> Tensor:
        """What the layer makes of the maps, of the type that they have."""
        with torch.autocast(maps.device.type, enabled=False):
            result: Tensor = type(self.layer).forward(self.layer, maps.float(), *arguments)
        return result.to(maps.dtype)


def keep_in_fp32(layer: nn.Module) -> None:
    """Compute a layer in fp32 from now on, whatever autocast says."""
    layer.forward = InFp32(layer)


def stays_in_fp32(layer: nn.Module) -> bool:
    """Whether `keep_in_fp32` was called for this layer, or for the one that it is a copy of."""
    return isinstance(vars(layer).get("forward"), InFp32)


def follow_autocast(layer: nn.Module) -> None:
    """Undo `keep_in_fp32`."""
    del layer.forward
