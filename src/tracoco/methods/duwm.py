"""DUWM (Wang et al., MICCAI 2020): a mean teacher weighted by two uncertainties.

It is a reconstruction: there is no release, and the paper (arXiv 2010.09298) was not consulted but
for its abstract. Known are the parts: a teacher asked several times, uncertainty of its prediction
and of its feature channels as weights of a consistency on all crops, and a term that lowers
uncertainty. How they are put together is ours.
"""

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import normalised_entropy, weighted_mse
from tracoco.losses.weighting import masked_mean
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.student_teacher import (
    StudentTeacher,
    StudentTeacherConfig,
    mean_of_passes,
)
from tracoco.networks.network import with_features


class DUWMConfig(StudentTeacherConfig):
    """Settings of `duwm`; none are published in code, so they are UA-MT's where it has them."""

    feature_weight: float = Field(default=1.0, ge=0)
    """Weight of the features, relative to that of the predictions; ours."""
    entropy_weight: float = Field(default=0.1, ge=0)
    """Weight of the student's own uncertainty, relative to that of the predictions; ours."""
    passes: PositiveInt = 8
    """Passes of the teacher whose mean tells how sure it is; UA-MT's."""


class DUWM(StudentTeacher):
    """Agree with the teacher in prediction and features, the more the surer it is of each."""

    Config = DUWMConfig
    config: DUWMConfig

    def __init__(self, config: DUWMConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, lambda: with_features(build_network(), "duwm"), facts)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, two weighted distances to the teacher, and the student's entropy."""
        crops, valid = batch.first.values, batch.first.valid
        unlabelled = slice(batch.labelled_count, None)
        logits, features = logits_and_features(self.student, crops)
        with torch.no_grad():
            target_logits, target_features = logits_and_features(
                self.teacher.network, self.noisy(crops)
            )
        target = target_logits.softmax(dim=1)
        probability = logits.softmax(dim=1)
        trusts = self.trusts(crops)
        weight = self.consistency_weight(step)
        predicted = weighted_mse(probability, target, trusts[0], valid)
        featured = weighted_mse(features, target_features, trusts[1], valid)
        unsure = masked_mean(normalised_entropy(probability), valid)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": weight * predicted,
            "features": weight * self.config.feature_weight * featured,
            "entropy": weight * self.config.entropy_weight * unsure,
        }
        judged = (probability.detach(), target, trusts[0])
        return StepOutput(terms, tuple(maps[unlabelled] for maps in judged))

    def trusts(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """exp(-uncertainty) of the teacher's prediction and of its features, from 0.37 to 1."""

        def maps(noisy: Tensor) -> tuple[Tensor, Tensor]:
            logits, features = logits_and_features(self.teacher.network, noisy)
            return logits.softmax(dim=1), features

        passes = self.config.passes
        prediction, features = mean_of_passes(maps, crops, noise=self.noise, passes=passes)
        return normalised_entropy(prediction).neg().exp(), normalised_entropy(features).neg().exp()

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also the mean weight that the teacher's predictions have on the unlabelled crops."""
        student, teacher, trust = output.pseudo_labels
        valid = batch.first.valid[batch.labelled_count :]
        mean = float(masked_mean(trust, valid))
        return pair_health(teacher, (student, teacher), valid, trust=mean)


def logits_and_features(network: nn.Module, crops: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the features before the head as fractions of the channels at each voxel."""
    network = with_features(network, "duwm")
    features = network.decode(network.encode(crops))
    return network.head(features).float(), features.float().softmax(dim=1)
