"""Two teachers that label crops together, and know what would mislead them (PS-MT)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from tracoco.methods.feature_noise import worst_noise
from tracoco.methods.mean_of_networks import MeanOfNetworks
from tracoco.methods.pseudo_labels import CleanPass, clean_pass

if TYPE_CHECKING:
    from tracoco.networks.network import Network


class TwoTeachers(MeanOfNetworks):
    """They are asked without dropout, and no gradient reaches them.

    PS-MT's release asks them with dropout. Its noise on features is nearly nothing, since a
    gradient is divided by a much larger constant; here it has the length that it is said to have.
    """

    def __init__(self, networks: Iterable[nn.Module], form: CleanPass) -> None:
        super().__init__(networks)
        self.form = form

    def label(self, crops: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Class probabilities of each teacher, and those of both together."""
        with clean_pass(self, self.form):
            first, second = (network(crops).float() for network in self.networks)
        both = (first + second) / 2
        return first.softmax(dim=1), second.softmax(dim=1), both.softmax(dim=1)

    def worst_noise(self, features: Sequence[Tensor], inside: Tensor) -> Tensor:
        """The noise of length one, on a student's coarsest map, that misleads them most."""
        with clean_pass(self, self.form):
            return worst_noise(self.decode, features, inside)

    def decode(self, features: list[Tensor]) -> Tensor:
        """What their decoders make of the student's maps."""
        networks = cast("list[Network]", list(self.networks))
        return torch.stack([each.head(each.decode(features)) for each in networks]).mean(dim=0)
