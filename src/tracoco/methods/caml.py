"""CAML (Gao et al., MICCAI 2023): correlation-aware mutual learning."""

from typing import Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.losses.mutual import mutual_loss
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.batch_attention import insert_attention
from tracoco.methods.figures import answer_shares, divergence_figures
from tracoco.methods.method import Method, NetworkFactory, RunFacts, labelled_loss
from tracoco.methods.relations import RelationConfig, Relations
from tracoco.networks.network import Network, with_features

SHARPENING = 0.1
"""Temperature of the targets, as released."""


class CAMLConfig(RelationConfig):
    """Settings of `caml`, by default those of its release for 8 labelled scans.

    The release learns from labels by half of a Dice loss, without cross-entropy. Here the
    supervised loss is the same in every method and its Dice is whole, so both weights are twice as
    large.
    """

    unsupervised_weight: float = Field(default=2.0, ge=0)
    """Largest weight of the mutual consistency; 1 in the release."""
    relation_weight: float = Field(default=0.1, ge=0)
    """Largest weight of the relations to labelled voxels; 0.05 in the release."""
    rampup_steps: PositiveInt | None = None
    """Steps until both weights are at their largest. If not given, a fifth of the run: 3,000 of
    15,000, where the release has 6,000 for 4 labelled scans and 2,250 for 16."""


class CAML(Method):
    """A plain network, and one with attention between the crops of a batch, teach each other."""

    Config = CAMLConfig

    def __init__(self, config: CAMLConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.config = config
        self.plain, self.attentive = (with_features(build_network(), "caml") for _ in range(2))
        self.plain.decoder = self.plain.make_decoder("transpose")
        self.attentive.decoder = self.attentive.make_decoder("linear")
        insert_attention(self.attentive)
        channels = [network.decoder_channels[-1] for network in self._networks]
        self.relations = Relations(channels, facts.classes, config)
        self.rampup_steps = config.rampup_steps or max(1, facts.total_steps // 5)
        self._answers: list[Tensor] = []

    @property
    def _networks(self) -> list[Network]:
        return [self.plain, self.attentive]

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """What labels teach both, agreement on all crops, and alike relations on unlabelled."""
        crops, inside = batch.first.values, batch.first.inside
        maps = [network.decode(network.encode(crops)) for network in self._networks]
        logits = [
            network.head(own).float() for network, own in zip(self._networks, maps, strict=True)
        ]
        self._answers = [each[batch.labelled_count :].detach().softmax(dim=1) for each in logits]
        # Targets are not detached, as in the release and in MC-Net, which it is taken from.
        distance = mutual_loss(logits, inside, temperature=SHARPENING, detached=False)
        ramp = sigmoid_rampup(step, self.rampup_steps)
        relation = self.relations(maps, logits, batch)
        return {
            "supervised": torch.stack([labelled_loss(each, batch) for each in logits]).sum(),
            "consistency": ramp * self.config.unsupervised_weight * distance,
            "relation": ramp * self.config.relation_weight * relation,
        }

    def inference_network(self) -> nn.Module:
        """The plain network alone."""
        return self.plain

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Both networks' class probabilities; without attention, since this is no training."""
        return [network(crops).float().softmax(dim=1) for network in self._networks]

    def trained_networks(self) -> list[nn.Module]:
        """Both."""
        return list(self._networks)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the heads, which are no network: nothing but the relations looks through them."""
        return [*super().parameter_groups(), {"params": list(self.relations.parameters())}]

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the plain network's last labels, and how far the other one agrees."""
        if not self._answers:
            return {}
        plain, attentive = self._answers
        inside = batch.first.inside[batch.labelled_count :]
        return answer_shares(plain, inside) | divergence_figures(plain, attentive, inside)
