"""Decoders that give the answers they are told, for methods with several on one encoder."""

import torch
from torch import Tensor, nn


class Told(nn.Module):
    """Stands for several decoders; each gives every voxel the same class probabilities."""

    def __init__(self, *probabilities: tuple[float, ...]) -> None:
        super().__init__()
        self.logits = nn.ParameterList(torch.tensor(each).log() for each in probabilities)

    def forward(self, crops: Tensor) -> list[Tensor]:
        one = (1, -1, *[1] * (crops.ndim - 2))
        shape = (len(crops), -1, *crops.shape[2:])
        return [each.reshape(one).expand(shape) for each in self.logits]
