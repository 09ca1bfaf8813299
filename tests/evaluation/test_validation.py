"""The Dice that chooses a checkpoint."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from samples import StandIn
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.evaluation.validation import mean_dice

if TYPE_CHECKING:
    from tracoco.project.store import StoredCase

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Row:
    """Twelve voxels in a row; the image holds the class that the method below will give."""

    prediction: list[int]
    truth: list[int]

    def image(self) -> NDArray[np.float32]:
        return np.array(self.prediction, dtype=np.float32).reshape(1, 12, 1, 1)

    def label(self) -> NDArray[np.uint8]:
        return np.array(self.truth, dtype=np.uint8).reshape(12, 1, 1)


class AsTold(StandIn):
    """The class that the image holds."""

    def predict(self, crops: Tensor) -> Tensor:
        classes = torch.arange(4).reshape(1, 4, 1, 1, 1)
        return (crops.round() == classes).float()


def score(*rows: Row, **config: Any) -> float:
    cases = cast("list[StoredCase]", list(rows))
    return mean_dice(AsTold(), cases, (4, 1, 1), InferenceConfig(**config), CPU)


def row(**counts: int) -> list[int]:
    """`row(c1=2, c2=1)`: two voxels of class 1, one of class 2, background up to twelve."""
    values = [int(name[1:]) for name, count in counts.items() for _ in range(count)]
    return values + [0] * (12 - len(values))


def test_structures_count_alike_and_a_missed_one_is_zero() -> None:
    # First case: class 1 has 2 of 4 voxels, Dice 4 / 6; class 2 is missed. Second case: class 3
    # is right; class 1, which is not there, was found, but asks for no score.
    first = Row(row(c1=2), row(c1=4, c2=3))
    second = Row(row(c3=5, c1=1), row(c3=5))
    assert score(first, second) == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_a_stride_is_followed_and_cases_without_a_structure_score_nothing() -> None:
    case = Row(row(c1=6), row(c1=6))
    assert score(case, stride=(3, 1, 1)) == 1.0
    assert score(Row(row(c1=6), row())) == 0.0
