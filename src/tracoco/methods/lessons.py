"""What the repeated passes of a teacher say of three tasks, each with its own trust (Tri-U-MT)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tracoco.losses.uncertainty import normalised_entropy
from tracoco.losses.weighting import masked_mean
from tracoco.methods.repeated_passes import mean_of_passes
from tracoco.methods.three_tasks import Answer, ThreeTasks


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the teacher's passes say of one task together, and how far to trust it."""

    target: Tensor
    """[B, K, ...]."""
    trust: Tensor
    """Of each voxel, [B, K, ...] or [B, 1, ...]: 1 where the passes are certain or all alike."""


def ask_teacher(
    teacher: ThreeTasks, crops: Tensor, *, dropout: float, noise: float, passes: int
) -> list[Lesson]:
    """What passes with dropout and noise of their own say of masks, distances and pictures."""
    look = partial(_one_pass, teacher, dropout)
    sure, mixed, *moments = mean_of_passes(look, crops, noise=noise, passes=passes)
    probability = mixed / sure
    certainty = 1 - normalised_entropy(probability).unsqueeze(1)
    distances, distances_squared, pictures, pictures_squared = moments
    return [
        Lesson(probability, certainty),
        Lesson(distances, (-_variance(distances, distances_squared, passes)).exp()),
        Lesson(pictures, (-_variance(pictures, pictures_squared, passes).sqrt()).exp()),
    ]


def lesson_loss(own: Sequence[Tensor], lessons: Sequence[Lesson], inside: Tensor) -> Tensor:
    """Squared difference to each lesson, by its trust: mean over voxels, sum over the tasks."""
    differences = [
        lesson.trust * (maps - lesson.target).square()
        for maps, lesson in zip(own, lessons, strict=True)
    ]
    return torch.stack([masked_mean(each.mean(dim=1), inside) for each in differences]).sum()


def unit_maps(answer: Answer) -> list[Tensor]:
    """What student and teacher are compared by, each from 0 to 1."""
    return [answer.logits.softmax(dim=1), (answer.distances + 1) / 2, answer.pictures]


def _one_pass(teacher: ThreeTasks, dropout: float, crops: Tensor) -> tuple[Tensor, ...]:
    """What the means over all passes are taken of.

    Masks are weighted by the softmax over passes of their certainty: a mean of exponentials times
    masks, to be divided by the mean of the exponentials.
    """
    probability, distances, pictures = unit_maps(teacher.look(crops, dropout))
    sure = (1 - normalised_entropy(probability)).exp().unsqueeze(1)
    moments = (distances, distances.square(), pictures, pictures.square())
    return sure, sure * probability, *moments


def _variance(mean: Tensor, mean_of_squares: Tensor, passes: int) -> Tensor:
    """Of the passes, as of a sample; rounding must not make it negative."""
    return (mean_of_squares - mean.square()).clamp(min=0) * passes / (passes - 1)
