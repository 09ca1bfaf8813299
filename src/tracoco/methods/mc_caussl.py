"""MC-CauSSL (Miao et al., ICCV 2023): decoders that teach each other must stay independent."""

import torch
from pydantic import Field, PositiveInt

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mutual_loss
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput, unlabelled_probabilities
from tracoco.methods.parts.decoders import PredictWith, SeveralDecoders, SharedEncoder, Ways
from tracoco.methods.parts.independence import Independence, IndependenceConfig, Pairs, filters


class MCCauSSLConfig(IndependenceConfig):
    """Settings of `mc-caussl`, by default those of its release for the pancreas.

    The release halves the supervised loss. Here it is whole, as in every method, so both weights
    are twice as large.
    """

    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of the consistency; 0.1 in the release."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest. If not given, six fifths of the run: the release
    has 6,000 for a run of 5,000, so that its weight ends at 0.87 of the largest."""
    temperature: float = Field(default=0.5, gt=0)
    """Of the sharpening that makes a decoder's probabilities a target."""
    independence_weight: float = Field(default=6.0, ge=0)
    """Of how well each decoder's filters are explained by those of the two others; 3 in the
    release."""
    decoders: Ways = "own"
    """How each decoder doubles the resolution. `own`: the first as the network itself does, the two
    others by the other ways. The release has [transpose, linear, nearest], on a VNet whose own way
    is the first of these."""
    predict_with: PredictWith = "first"
    """The release tests the first decoder alone."""


class MCCauSSL(SharedEncoder):
    """Three decoders, none of which may be a linear combination of the two others.

    In the release only the first decoder becomes independent, since it reads the filters of the
    others without their gradient; here all do. It takes filters with more weights than the others
    have filters, as 3x3 convolutions have: else some combination explains them whatever they are.
    """

    Config = MCCauSSLConfig

    def __init__(
        self, config: MCCauSSLConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        ups = 3 if config.decoders == "own" else config.decoders
        decoders = SeveralDecoders("mc-caussl", build_network, ups)
        super().__init__(decoders, config.predict_with)
        self.config = config
        self.rampup_steps = config.rampup_steps or max(1, round(1.2 * facts.total_steps))
        self.independence = Independence(self.pairs(), config, first_step=config.every)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, agreement on unlabelled crops, and how far decoders are dependent."""
        logits = self.decoders(batch.first.values)
        distance = mutual_loss(
            [each[batch.labelled_count :] for each in logits],
            batch.first.valid[batch.labelled_count :],
            temperature=self.config.temperature,
            detached=True,
        )
        weight = self.config.unsupervised_weight * sigmoid_rampup(step, self.rampup_steps)
        # The mean over the layers of a decoder, and the sum over decoders.
        explained = len(logits) * self.independence(self.pairs(), step)
        terms = {
            "supervised": self.supervised(batch, logits).sum(),
            "consistency": weight * distance,
            "independence": self.config.independence_weight * explained,
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *logits[:2]))

    def before_step(self, batch: Batch, step: int) -> None:
        """Search for what explains each decoder by the others, if it is time to."""
        self.independence.search(self.pairs(), step)

    def pairs(self) -> Pairs:
        """Filters of each decoder, layer by layer, with those of both others.

        Left out are layers whose filters are not equally long in all decoders: such follow on a
        doubling that leaves some decoders more channels.
        """
        decoders = [filters(each.decoder.blocks, each.head) for each in self.decoders.branches]
        layers = [
            layer for layer in zip(*decoders, strict=True) if len({own.shape for own in layer}) == 1
        ]
        return [
            (own, torch.cat([*layer[:place], *layer[place + 1 :]]).detach())
            for layer in layers
            for place, own in enumerate(layer)
        ]
