"""UniMatch (Yang et al., CVPR 2023), in its authors' variant for medical images."""

import torch
from pydantic import Field
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.weak_to_strong import WeakToStrong, WeakToStrongConfig
from tracoco.networks.network import Network, with_features
from tracoco.networks.statistics import norms_by_batch


class UniMatchConfig(WeakToStrongConfig):
    """Settings of `unimatch`, by default those of its release for medical images.

    The release halves the supervised loss, weighs each strong view by 0.25 and the perturbed
    features by 0.5. Here the supervised loss is whole, as in every method, and so these weights
    are twice as large. There is no ramp.
    """

    strong_weight: float = Field(default=0.5, ge=0)
    """Weight of each of the two strong views."""
    feature_weight: float = Field(default=1.0, ge=0)
    """Weight of the crops as they are with perturbed features."""
    feature_dropout: float = Field(default=0.5, ge=0, lt=1)
    """Fraction of the channels that the perturbation takes from each map of the encoder."""


class UniMatch(WeakToStrong):
    """Sure labels of a crop must hold for two strong views, and without half of its features."""

    Config = UniMatchConfig
    config: UniMatchConfig
    network: Network

    def __init__(
        self, config: UniMatchConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, with_features(build_network(), "unimatch"), facts)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised, two strong views, and the crops as they are with perturbed features."""
        logits, perturbed = self._training_pass(batch)
        predictions = self.predictions(batch, logits)
        views = [self.strong_labels(predictions), self.strong_labels(predictions)]
        strong = self.network(torch.cat([view.crops for view in views])).float().chunk(2)
        learnt = [view.dice(own) for view, own in zip(views, strong, strict=True)]
        unperturbed = self.plain_labels(predictions)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "strong": self.config.strong_weight * torch.stack(learnt).sum(),
            "features": self.config.feature_weight * unperturbed.dice(perturbed),
        }
        return StepOutput(terms, (predictions.own,))

    def _training_pass(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of all crops, and of the unlabelled ones with perturbed features.

        All are decoded together, and the labelled crops are perturbed too, though nothing learns
        from that: BatchNorm sees them, as in the release. Without BatchNorm they are left out.
        """
        first = 0 if norms_by_batch(self.network) else batch.labelled_count
        features = [
            torch.cat([maps, self._perturb(maps[first:])])
            for maps in self.network.encode(batch.first.values)
        ]
        logits = self.network.head(self.network.decode(features)).float()
        return logits[: len(batch.cases)], logits[len(batch.cases) + batch.labelled_count - first :]

    def _perturb(self, maps: Tensor) -> Tensor:
        """Take whole channels away, and make the others larger for it."""
        return torch.feature_dropout(maps, self.config.feature_dropout, train=True)
