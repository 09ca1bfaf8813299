"""CAC (Lai et al., CVPR 2021): directional context-aware consistency, in 2D and 3D."""

from typing import Any

from pydantic import Field

from tracoco.data.batch import Batch
from tracoco.methods.health import PseudoLabelHealth, class_fractions
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.context_contrast import ContextContrast, ContrastConfig, crop_agreement
from tracoco.networks.network import Network, with_features


class CACConfig(ContrastConfig):
    """Settings of `cac`."""

    noise: float = Field(default=0.05, ge=0)
    """Uniform noise on each crop, as a fraction of the intensity range; the same as TraCoCo's."""


class CAC(Method):
    """One network whose features agree in the overlap of two crops.

    Unlabelled crops teach the features but never the head, which learns from labels alone.
    """

    Config = CACConfig
    network: Network

    def __init__(self, config: CACConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.network = with_features(build_network(), "cac")
        self.contrast = ContextContrast(self.network, config, config.noise, facts)
        self.classes = facts.classes

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and the contrast of the unlabelled crop pairs."""
        contrast = self.contrast(self.network, batch, step)
        terms = {
            "supervised": self.labelled_loss(contrast.logits, batch),
            "contrast": contrast.loss,
        }
        return StepOutput(terms, (contrast.labels, contrast.confidence))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projector, which is no network: only the contrast uses it."""
        return [*super().parameter_groups(), {"params": list(self.contrast.parameters())}]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Of the voxels that were drawn for the contrast; those of sure crops may teach."""
        labels, confidence = output.pseudo_labels
        sure = (confidence > self.contrast.config.threshold).sum() / max(1, confidence.numel())
        return PseudoLabelHealth(
            class_fractions(labels, self.classes),
            likely=float(sure),
            further={"crop_agreement": crop_agreement(labels)},
        )
