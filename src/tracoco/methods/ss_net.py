"""SS-Net (Wu et al., MICCAI 2022): smooth answers, and classes that lie apart."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.answer_distance import answer_distance
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.adversarial import crop_lengths, random_directions, steepest, unit_length
from tracoco.methods.class_separation import ClassSeparation
from tracoco.methods.figures import answer_shares, divergence_figures
from tracoco.methods.method import NetworkFactory, RunFacts, labelled_loss
from tracoco.methods.one_network import OneNetwork
from tracoco.networks.network import Network, with_features
from tracoco.networks.statistics import frozen_statistics


@dataclass(frozen=True, slots=True)
class Released:
    """What the releases for 2D and 3D have different values of."""

    weight: float
    ramp: float
    """Share of the run in which the weight rises."""
    radius: float
    probe: float


RELEASED = {
    # Lengths of 6 and 10 over 256 x 256 pixels in [0, 1].
    2: Released(weight=0.1, ramp=1.0, radius=6 / 256, probe=10 / 256),
    # 6,000 of 15,000 steps. Lengths of 10 over 112 x 112 x 80 voxels: a hundredth of a scan's
    # standard deviation in each voxel, which is about a fifth of the range.
    3: Released(weight=1.0, ramp=0.4, radius=0.002, probe=0.002),
}


class SSNetConfig(Settings):
    """Settings of `ss-net`, by default those of its releases.

    Those learn from labels by Dice alone; here the supervised loss is the same in every method.
    """

    unsupervised_weight: float | None = Field(default=None, ge=0)
    """Largest weight of both unlabelled terms; as released 1 in 3D and 0.1 in 2D if not given."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; as released two fifths of the run in 3D and the
    whole run in 2D if not given."""
    radius: float | None = Field(default=None, ge=0)
    """Root mean square of the perturbation that answers must withstand, as a fraction of the
    intensity range; 0.002 in 3D and 0.0234 in 2D if not given. The releases give the length of
    the whole perturbation, which means little without the size of their crops."""
    probe: float | None = Field(default=None, gt=0)
    """The same of the random perturbation at which the worst direction is asked for; 0.002 in 3D
    and 0.039 in 2D if not given."""
    separation_weight: float = Field(default=0.1, ge=0)
    """Of the distance to prototypes, beside a weight of 1 of the smoothness."""
    positions: PositiveInt = 16384
    """Voxels of each class, at most, that are compared with prototypes, drawn anew at every step.
    The release takes all, which large crops have no memory for."""


class SSNet(OneNetwork):
    """One network whose answers withstand the worst small change of a crop."""

    Config = SSNetConfig
    network: Network
    name: ClassVar[str] = "ss-net"

    def __init__(self, config: SSNetConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.network = with_features(build_network(), self.name)
        channels = self.network.decoder_channels[-1]
        self.separation = ClassSeparation(channels, facts.classes, config.positions)
        self.config = config
        released = RELEASED[facts.dimensions]
        weight, radius = config.unsupervised_weight, config.radius
        self.largest_weight = released.weight if weight is None else weight
        self.rampup_steps = config.rampup_steps or max(1, round(released.ramp * facts.total_steps))
        self.radius = (released.radius if radius is None else radius) * facts.intensity_range
        self.probe = (config.probe or released.probe) * facts.intensity_range
        self._answers: tuple[Tensor, Tensor] | None = None

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Supervised loss, smoothness of all answers, and the distance to prototypes."""
        crops, inside = batch.first.values, batch.first.inside
        features = self.network.decode(self.network.encode(crops))
        logits = self.network.head(features).float()
        smoothness = self.smoothness(crops, logits.detach().softmax(dim=1), inside)
        separation = self.config.separation_weight * self.separation(features, logits, batch)
        weight = self.largest_weight * sigmoid_rampup(step, self.rampup_steps)
        return {
            "supervised": labelled_loss(logits, batch),
            "smoothness": weight * smoothness,
            "separation": weight * separation,
        }

    def smoothness(self, crops: Tensor, answer: Tensor, inside: Tensor) -> Tensor:
        """How far the worst small change of the crops moves the answer.

        The answer to hold on to is that of the training pass; the release makes another pass for
        it, in the same mode.
        """
        with frozen_statistics(self.network):
            start = random_directions(crops, inside)
            worst = unit_length(self.score(start, crops, answer, inside), inside)
            change = crop_lengths(inside, crops.shape[1], self.radius) * worst
            moved = self.network(crops + change).float().softmax(dim=1)
        self._answers = (answer, moved.detach())
        return answer_distance(moved, answer, inside)

    def score(self, start: Tensor, crops: Tensor, answer: Tensor, inside: Tensor) -> Tensor:
        """Where the answer changes fastest, seen from a direction of length one."""

        def distance(change: Tensor) -> Tensor:
            moved = self.network(crops + change).softmax(dim=1)
            return answer_distance(moved, answer, inside)

        return steepest(distance, crop_lengths(inside, crops.shape[1], self.probe) * start)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the heads, which are no network: nothing but the separation looks through them."""
        return [*super().parameter_groups(), {"params": list(self.separation.parameters())}]

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the last labels of unlabelled crops, and how far they were moved."""
        if self._answers is None:
            return {}
        answer, moved = (each[batch.labelled_count :] for each in self._answers)
        inside = batch.first.inside[batch.labelled_count :]
        return answer_shares(answer, inside) | divergence_figures(answer, moved, inside)
