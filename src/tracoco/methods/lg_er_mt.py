"""LG-ER-MT (Hang et al., MICCAI 2020): local and global structure, and low entropy."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mse_loss, normalised_entropy, self_information
from tracoco.losses.weighting import masked_mean
from tracoco.methods.method import StepOutput, unlabelled_probabilities
from tracoco.methods.parts.student_teacher import StudentTeacher, StudentTeacherConfig


def similarity_loss(own: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """Squared difference of two predictions' similarities of voxels, mean over all pairs of voxels.

    The similarity of two voxels is the cosine between their class probabilities. A cube of 16
    voxels a side has 16 million pairs, but no matrix of them is needed: with the directions as
    columns of S and T, and D = S - T, the sum over the pairs of (S'S - T'T) squared is
    <SS' + TT', DD'> + 2 <SD', DT'>, and these matrices are as small as the number of classes.

    Args:
        own: class probabilities of cubes, [B, C, ...]; these learn.
        other: those of the teacher; no gradient reaches them.
        valid: false where a cube is padding, [B, ...]; such voxels are in no pair.
    """
    counted = valid.flatten(1)
    # In full precision: half of it would round away how little a teacher differs.
    with torch.autocast(own.device.type, enabled=False):
        learner, teacher = (
            F.normalize(prediction.float().flatten(2), dim=1) * counted.unsqueeze(1)
            for prediction in (own, other.detach())
        )
        apart = learner - teacher
        squares = (learner @ learner.mT + teacher @ teacher.mT) * (apart @ apart.mT)
        crossed = (learner @ apart.mT) * (apart @ teacher.mT)
        total = (squares + 2 * crossed).sum(dim=(1, 2))
    pairs = counted.sum(dim=1).square()
    return masked_mean(total / pairs.clamp(min=1), pairs > 0)


class LGERMTConfig(StudentTeacherConfig):
    """Settings of `lg-er-mt`, by default those of the second author's release."""

    structure_weight: float = Field(default=0.02, ge=0)
    """Largest weight of each of the other three terms: local and global structure, entropy; 0.01
    in the release, beside half of the supervised loss."""
    cube: PositiveInt = 16
    """Voxels a side of the cubes whose voxels are compared with each other; squares in 2D."""
    cubes: PositiveInt = 4
    """How many are drawn at a step. The release takes cells of a grid of such cubes; here they lie
    wherever they fit, so that a crop's sides need not be multiples."""


class LGERMT(StudentTeacher):
    """Mean Teacher on all crops that also compares structures, and wants the student to be sure.

    The squared differences of probabilities and of self-information are halved, as released.
    """

    Config = LGERMTConfig
    config: LGERMTConfig

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, three comparisons with the teacher, the entropy of unlabelled crops."""
        unlabelled, valid = slice(batch.labelled_count, None), batch.first.valid
        logits = self.student(batch.first.values).float()
        prediction = self.teacher(self.noisy(batch.first.values))
        probability = logits.softmax(dim=1)
        entropy = normalised_entropy(probability[unlabelled])
        weight = self.config.structure_weight * self.rampup(step)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": self.consistency_weight(step) * mse_loss(logits, prediction, valid) / 2,
            "local": weight * self.local_difference(probability, prediction, valid),
            "global": weight * information_difference(probability, prediction, valid),
            "entropy": weight * masked_mean(entropy, valid[unlabelled]),
        }
        return StepOutput(terms, (*unlabelled_probabilities(batch, logits), prediction[unlabelled]))

    def local_difference(self, probability: Tensor, prediction: Tensor, valid: Tensor) -> Tensor:
        """How differently the voxels of a cube resemble each other, in cubes drawn anew."""
        places = draw_cubes(valid.shape[1:], self.config.cube, self.config.cubes)
        own, other, counted = (
            torch.cat([maps[:, :, *place] for place in places])
            for maps in (probability, prediction, valid.unsqueeze(1))
        )
        return similarity_loss(own, other, counted.squeeze(1))


def information_difference(probability: Tensor, prediction: Tensor, valid: Tensor) -> Tensor:
    """Half the squared difference of the self-information, mean over classes and voxels."""
    difference = self_information(probability) - self_information(prediction)
    return masked_mean(difference.square().mean(dim=1), valid) / 2


def draw_cubes(size: Sequence[int], side: int, count: int) -> list[tuple[slice, ...]]:
    """Places of cubes, the same in all crops; a cube ends where a shorter crop does."""
    sides = [min(side, length) for length in size]
    rooms = [length - own + 1 for length, own in zip(size, sides, strict=True)]
    places = []
    for _ in range(count):
        starts = [int(torch.randint(room, ())) for room in rooms]
        places.append(
            tuple(slice(start, start + own) for start, own in zip(starts, sides, strict=True))
        )
    return places
