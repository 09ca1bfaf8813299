"""CPS (Chen et al., CVPR 2021): cross pseudo supervision, with CutMix."""

from tracoco.data.batch import Batch
from tracoco.losses.consistency import ce_loss
from tracoco.losses.crc import semi_supervised_loss
from tracoco.methods.method import StepOutput
from tracoco.methods.parts.co_training import CoTraining, CoTrainingConfig


class CPS(CoTraining):
    """Two networks; each one's hard labels supervise the other, on unlabelled crops alone.

    It is the baseline of the paper's ablation: TraCoCo with plain cross-entropy and without
    translation consistency.
    """

    Config = CoTrainingConfig

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised learning of both, plus cross-entropy with the peer's labels."""
        first = self.logits(self.needed_crops(batch))
        pseudo_labels = self.pseudo_labels(batch, first)
        terms = {"supervised": self.labelled_losses(first, batch)}
        if batch.unlabelled_counts:
            unlabelled = self.unlabelled(batch, first, pseudo_labels)
            loss = semi_supervised_loss(*unlabelled, ce_loss)
            terms["ce"] = self.unsupervised_weight(step) * loss
        return StepOutput(terms, pseudo_labels)
