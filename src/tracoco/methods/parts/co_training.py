"""Co-training: two networks, differently initialised, that teach each other by pseudo-labels."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, cast

from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.losses.weighting import RAMPS
from tracoco.methods.health import PseudoLabelHealth, peer_health
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    evaluating,
    uniform_noise,
    unlabelled_probabilities,
)
from tracoco.methods.parts.cutmix import check_partners, draw_mix
from tracoco.methods.parts.student_teacher import CleanPass, EmaTeacher, PseudoLabelPass, clean_pass
from tracoco.networks.statistics import frozen_statistics, mixes_kinds
from tracoco.settings import Settings


def second_network(
    build_network: NetworkFactory, name: str, options: Mapping[str, Any]
) -> nn.Module:
    """The network that `method.second` names, for the crops of the run's own."""
    try:
        return build_network(name=name, options=options)
    except UserError as error:
        raise UserError(f"method.second: {error}") from error


class Peers(Method):
    """Two networks that see all crops in one pass; the first predicts."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.networks = nn.ModuleList([first, second])

    def logits(self, batch: Batch) -> list[Tensor]:
        """What each network says of all crops as they are."""
        return [network(batch.first.values).float() for network in self.networks]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of both networks' pseudo-labels, and how far the two agree on them."""
        return peer_health(output.pseudo_labels, batch.first.valid[batch.labelled_count :])


class TwoNetworksConfig(Settings):
    """How strongly unlabelled crops count, how noisy all are; the paper's if nothing is said."""

    unsupervised_weight: float = Field(default=1.0, ge=0)
    """Largest lambda, Eq. (1)."""
    rampup: Literal["cosine", "sigmoid", "linear"] = "cosine"
    """How lambda rises to its largest value."""
    rampup_steps: PositiveInt | None = None
    """Steps until lambda is at its largest; a third of the run if not given. That is ours: in short
    runs the paper's 40 epochs are so few that pseudo-labels collapse to background."""
    rampup_epochs: PositiveInt | None = None
    """The same in passes over the labelled scans, or slices of them; in place of the steps."""
    noise: float = Field(default=0.05, ge=0)
    """Half-width of xi, Eq. (2), as a fraction of the intensity range. The release has 0.05 for all
    data sets but the Left Atrium, the paper 0.2, which was no better in small runs."""


class Ramp:
    """Lambda of Eq. (1) at each step."""

    def __init__(self, config: TwoNetworksConfig, facts: RunFacts) -> None:
        if config.rampup_steps and config.rampup_epochs:
            raise UserError("method.rampup_steps and method.rampup_epochs are both given; keep one")
        steps = config.rampup_steps or max(1, facts.total_steps // 3)
        if config.rampup_epochs:
            steps = config.rampup_epochs * facts.steps_per_epoch
        self._steps, self._rise = steps, RAMPS[config.rampup]
        self._largest = config.unsupervised_weight

    def __call__(self, step: int) -> float:
        """The weight of unlabelled crops."""
        return self._largest * self._rise(step, self._steps)


class CoTrainingConfig(TwoNetworksConfig):
    """How pseudo-labels are made, and whether crops are mixed; by default as TraCoCo does."""

    cutmix: bool = True
    """Mix unlabelled crops with each other, and their pseudo-labels alike."""
    cutmix_axes: tuple[NonNegativeInt, ...] | None = None
    """Axes along which a mixed box ends inside the crop; along the others it goes through. All
    axes if not given."""
    pseudo_labels: PseudoLabelPass | Literal["averaged"] = "averaged"
    """Where pseudo-labels come from. `averaged`: a pass without noise and dropout of each network's
    moving average, as at test time, which is ours. `batch`: one without noise and dropout, where
    BatchNorm uses the statistics of the batch, as in the authors' release. `clean`:
    the same, but BatchNorm uses its running statistics, as at test time. `training`: the noisy
    training pass, as in Eq. (2), at no cost. `batch` and `clean` differ for networks with BatchNorm
    alone."""
    average_decay: float = Field(default=0.99, ge=0, lt=1)
    """Fraction of the moving averages that each step keeps; of `averaged` pseudo-labels alone."""


class Unlabelled(NamedTuple):
    """Unlabelled crops as two networks learn from them."""

    logits: tuple[Tensor, Tensor]
    """What network 1 and network 2 say of the crops, [B, C, ...]."""
    peers: tuple[Tensor, Tensor]
    """Pseudo-labels of network 1 and network 2 for the same crops: probabilities, [B, C, ...]."""
    valid: Tensor
    """False where the crops are padding, [B, ...]."""


class CoTraining(Method):
    """Two networks of one kind that see noisy crops and learn from each other's pseudo-labels."""

    config: CoTrainingConfig

    def __init__(
        self, config: CoTrainingConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        if config.cutmix:
            check_partners(facts.unlabelled_batch, config.cutmix_axes, facts.dimensions)
        self.config = config
        self.networks = nn.ModuleList([build_network(), build_network()])
        self.noise = config.noise * facts.intensity_range
        self.unsupervised_weight = Ramp(config, facts)
        self.averages = nn.ModuleList()
        if config.pseudo_labels == "averaged":
            self.averages.extend(
                EmaTeacher(network, config.average_decay, average_statistics=True)
                for network in self.networks
            )

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the averages, where they give the pseudo-labels."""
        for average, network in zip(self.averages, self.networks, strict=False):
            cast("EmaTeacher", average).update(step, network)

    @property
    def advice(self) -> str:
        """CutMix first: without it tumours stayed that had faded with it (CHANGELOG.md)."""
        without = "leave CutMix out with `--set method.cutmix=false`, or "
        return (without if self.config.cutmix else "") + super().advice

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of both networks' pseudo-labels, and how far the two agree on them."""
        return peer_health(output.pseudo_labels, batch.first.valid[batch.labelled_count :])

    def logits(self, crops: Tensor) -> list[Tensor]:
        """What each network says of the crops, under noise of its own."""
        return [network(uniform_noise(crops, self.noise)).float() for network in self.networks]

    def needed_crops(self, batch: Batch) -> Tensor:
        """All crops, or those with labels if nothing is learnt from the others as they are.

        With CutMix the others are learnt from in a pass of their own, and not at all while they do
        not count. All crops are needed for pseudo-labels of this pass, and by BatchNorm with joint
        statistics.
        """
        unused = self.config.cutmix or not batch.unlabelled_counts
        own_pass = self.config.pseudo_labels != "training" and not mixes_kinds(self.networks)
        spared = unused and own_pass
        return batch.first.values[: batch.labelled_count] if spared else batch.first.values

    def pseudo_labels(self, batch: Batch, first: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Class probabilities of the unlabelled crops from each network, without gradient.

        Args:
            batch: the crops.
            first: what each network said of them in the training pass.
        """
        form = self.config.pseudo_labels
        if form == "averaged":
            crops = batch.first.values[batch.labelled_count :]
            with evaluating(self.averages):
                one, two = (average(crops) for average in self.averages)
        elif form == "training":
            one, two = unlabelled_probabilities(batch, *first)
        else:
            one, two = (logits.softmax(dim=1) for logits in self._clean_logits(batch, form))
        return one, two

    def unlabelled(
        self, batch: Batch, first: Sequence[Tensor], pseudo_labels: tuple[Tensor, Tensor]
    ) -> Unlabelled:
        """The unlabelled crops as both networks learn from them; mixed by CutMix, Eq. (9) and (10).

        Args:
            batch: the crops.
            first: what each network said of them in the training pass.
            pseudo_labels: of the unlabelled ones.
        """
        unlabelled = slice(batch.labelled_count, None)
        crops, valid = batch.first.values[unlabelled], batch.first.valid[unlabelled]
        if not self.config.cutmix:
            one, two = (logits[unlabelled] for logits in first)
            return Unlabelled((one, two), pseudo_labels, valid)
        mix = draw_mix(len(crops), valid.shape[1:], self.config.cutmix_axes).to(crops.device)
        # Running statistics take in each crop once: mixed, where no other pass has it.
        counted = len(first[0]) > batch.labelled_count
        with frozen_statistics(self.networks) if counted else nullcontext():
            one, two = self.logits(mix(crops))
        peers = (mix(pseudo_labels[0]), mix(pseudo_labels[1]))
        return Unlabelled((one, two), peers, mix(valid))

    def _clean_logits(self, batch: Batch, form: CleanPass) -> list[Tensor]:
        """What each network says of the unlabelled crops as they are.

        Where the training pass has joint statistics of all crops, so has this one.
        """
        labelled = batch.labelled_count
        unseen = 0 if form == "batch" and mixes_kinds(self.networks) else labelled
        crops = batch.first.values[unseen:]
        with clean_pass(self.networks, form):
            return [network(crops).float()[labelled - unseen :] for network in self.networks]
