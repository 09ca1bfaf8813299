"""What was last seen of each labelled case, as features of single voxels."""

import torch
from torch import Tensor, nn


class CaseBank(nn.Module):
    """Features by case and class; those of a case are replaced whenever it is seen again.

    They are saved with the weights: the first step of a resumed run needs all that came before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cases: dict[str, list[Tensor]] = {}

    def put(self, case: str, features: list[Tensor]) -> None:
        """Remember a case by the features of each class, each [N, D]."""
        self._cases[case] = features

    def draw(self, count: int) -> list[Tensor]:
        """Up to `count` features of each class, drawn from all cases together."""
        return [_draw(torch.cat(parts), count) for parts in zip(*self._cases.values(), strict=True)]

    def get_extra_state(self) -> dict[str, list[Tensor]]:
        """All features; torch saves them among the weights."""
        return dict(self._cases)

    def set_extra_state(self, state: dict[str, list[Tensor]]) -> None:
        """Go on with what was remembered."""
        self._cases = dict(state)


def _draw(features: Tensor, count: int) -> Tensor:
    return features[torch.randperm(len(features))[:count].to(features.device)]
