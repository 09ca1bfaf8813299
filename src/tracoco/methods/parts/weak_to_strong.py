"""Pseudo-labels of a crop as it is teach the same network about a strong view of it."""

from dataclasses import dataclass

from pydantic import Field
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.supervised import class_dice_losses
from tracoco.losses.weighting import masked_mean
from tracoco.methods.health import PseudoLabelHealth, predicted_fractions
from tracoco.methods.method import Method, RunFacts, StepOutput
from tracoco.methods.parts.cutmix import check_partners, draw_small_mix
from tracoco.methods.parts.strong_view import strong_view
from tracoco.methods.parts.student_teacher import PseudoLabelPass, clean_pass
from tracoco.settings import Settings


class WeakToStrongConfig(Settings):
    """Which pseudo-labels count, and whether strong views are mixed."""

    threshold: float = Field(default=0.95, ge=0, le=1)
    """A voxel counts where its largest probability is at least this; from FixMatch."""
    cutmix: bool = True
    """Put a box of another crop's strong view into every other one, as UniMatch's release does."""
    pseudo_labels: PseudoLabelPass = "training"
    """The pass that pseudo-labels come from: `training`, with dropout, as in UniMatch's release;
    `batch`, one of the unlabelled crops alone without dropout, by BatchNorm's statistics of these;
    `clean`, the same with its running statistics. What one crop gives to another always comes from
    a pass of its own: `batch`, unless `clean` is chosen."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The unlabelled crops of a batch, and what the network says of them, without gradient."""

    crops: Tensor
    valid: Tensor
    """False where the crops are padding, [B, ...]."""
    own: Tensor
    """Probabilities that a crop has for itself, [B, C, ...]."""
    given: Tensor
    """Probabilities that go with the box which it gives to another, [B, C, ...]."""
    threshold: float
    """A label counts where its probability is at least this."""


@dataclass(frozen=True, slots=True)
class LabelledView:
    """A view of the unlabelled crops, and the labels that it is to be given."""

    crops: Tensor
    valid: Tensor
    label: Tensor
    """Class indices, [B, ...]."""
    sure: Tensor
    """True where a label counts, [B, ...]; nowhere in the padding."""

    def dice(self, logits: Tensor, *, background: bool = True) -> Tensor:
        """1 - Dice of all classes, the background too, where labels count; 0 without any."""
        losses = class_dice_losses(logits, self.label, self.sure)
        return losses.mean() if background else losses[1:].mean()


class WeakToStrong(Method):
    """One network that is its own teacher."""

    config: WeakToStrongConfig

    def __init__(self, config: WeakToStrongConfig, network: nn.Module, facts: RunFacts) -> None:
        super().__init__()
        if config.cutmix:
            check_partners(facts.unlabelled_batch, None, facts.dimensions)
        self.config = config
        self.network = network
        self.limits = facts.intensity_limits

    def predictions(self, batch: Batch, logits: Tensor) -> Predictions:
        """What pseudo-labels are made of; `logits` are those of the training pass, of all crops."""
        unlabelled = slice(batch.labelled_count, None)
        crops = batch.first.values[unlabelled]
        own = given = logits[unlabelled].detach().softmax(dim=1)
        form = self.config.pseudo_labels
        if self.config.cutmix or form != "training":
            with clean_pass(self.network, "clean" if form == "clean" else "batch"):
                given = self.network(crops).float().softmax(dim=1)
        if form != "training":
            own = given
        valid = batch.first.valid[unlabelled]
        return Predictions(crops, valid, own, given, self.config.threshold)

    def plain_labels(self, predictions: Predictions) -> LabelledView:
        """The crops as they are."""
        return _labelled(predictions, predictions.crops, predictions.valid, predictions.own)

    def strong_labels(self, predictions: Predictions) -> LabelledView:
        """A strong view of each crop; every other one has a box of another crop's view."""
        (view,) = self.strong_label_sets(predictions)
        return view

    def strong_label_sets(self, *predictions: Predictions) -> list[LabelledView]:
        """One such view, with the labels of each of several predictions of the same crops."""
        crops, valid = predictions[0].crops, predictions[0].valid
        crops = strong_view(crops, valid, self.limits)
        probabilities = [each.own for each in predictions]
        if self.config.cutmix:
            mix = draw_small_mix(len(crops), valid.shape[1:]).to(crops.device)
            crops, valid = mix(crops), mix(valid)
            probabilities = [mix(each.own, each.given) for each in predictions]
        pairs = zip(predictions, probabilities, strict=True)
        return [_labelled(each, crops, valid, probability) for each, probability in pairs]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """How many pseudo-labels are sure enough to count, and their class fractions.

        A class that a network finds everywhere but is nowhere sure of teaches nothing, while the
        others grow at its cost.
        """
        (labels,) = output.pseudo_labels
        valid = batch.first.valid[batch.labelled_count :]
        sure = (labels.amax(dim=1) >= self.config.threshold) & valid
        fractions = predicted_fractions(labels, sure) if sure.any() else ()
        return PseudoLabelHealth(fractions, likely=float(masked_mean(sure, valid)))


def _labelled(
    predictions: Predictions, crops: Tensor, valid: Tensor, probability: Tensor
) -> LabelledView:
    confidence, label = probability.max(dim=1)
    return LabelledView(crops, valid, label, (confidence >= predictions.threshold) & valid)
