"""Networks that give the answers they are told, for methods with a student and a teacher."""

import torch
from torch import Tensor, nn

from tracoco.methods.parts.student_teacher import StudentTeacher


class Answering(nn.Module):
    """Gives these probabilities, pass after pass, over and over, and notes what it was asked."""

    def __init__(self, *predictions: Tensor) -> None:
        """Each is [B, C, ...], where axes of length one stand for all crops and voxels."""
        super().__init__()
        self.logits = nn.ParameterList(prediction.log() for prediction in predictions)
        self.calls: list[Tensor] = []

    def forward(self, crops: Tensor) -> Tensor:
        logits: Tensor = self.logits[len(self.calls) % len(self.logits)]
        self.calls.append(crops)
        return logits.expand(len(crops), -1, *crops.shape[2:])


class Constant(nn.Module):
    """Gives every voxel the same logits, and notes what it was asked."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))
        self.calls: list[Tensor] = []

    def forward(self, crops: Tensor) -> Tensor:
        self.calls.append(crops)
        logits = self.logits.reshape(1, -1, *[1] * (crops.ndim - 2))
        return logits.expand(len(crops), -1, *crops.shape[2:])


class Told(nn.Module):
    """A network in parts that gives the same answer everywhere and notes what it decodes."""

    def __init__(self, prediction: Tensor, *, normalised: bool = False) -> None:
        super().__init__()
        self.norm = nn.BatchNorm3d(8) if normalised else nn.Identity()
        self.logits = nn.Parameter(prediction.log())
        self.decoded: list[list[Tensor]] = []

    def encode(self, crops: Tensor) -> list[Tensor]:
        return [crops.expand(-1, 8, *crops.shape[2:]), crops[:, :, ::2]]

    def decode(self, features: list[Tensor]) -> Tensor:
        self.decoded.append(features)
        return features[0]

    def head(self, maps: Tensor) -> Tensor:
        return self.logits.expand(len(maps), -1, *maps.shape[2:])

    def forward(self, crops: Tensor) -> Tensor:
        return self.head(self.decode(self.encode(crops)))


def everywhere(*probabilities: float, dimensions: int = 3) -> Tensor:
    """The same in every voxel of every crop."""
    return torch.tensor(probabilities).reshape(1, -1, *[1] * dimensions)


def by_halves(first: Tensor, second: Tensor, length: int = 16) -> Tensor:
    """One answer in the first half of the last axis, another in the second."""
    shape = (*first.shape[:-1], length // 2)
    return torch.cat([first.expand(shape), second.expand(shape)], dim=-1)


def answer_with(method: StudentTeacher, student: nn.Module, teacher: nn.Module) -> None:
    method.student = student
    method.teacher.network = teacher.requires_grad_(requires_grad=False)
