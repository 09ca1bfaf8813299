from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tracoco.losses.consistency import class_distance, joint_distance, prediction_distance

Measure = Callable[[Tensor, Tensor, Tensor], Tensor]


def voxels(*probabilities: tuple[float, ...]) -> Tensor:
    """One crop, one voxel for each tuple of class probabilities."""
    return torch.tensor(probabilities).T.unsqueeze(0)


def test_for_two_classes_equal_answers_are_apart_by_their_uncertainty() -> None:
    # p = q = (0.6, 0.4): 1 - (0.36 + 0.16) = 0.48, and 0 once certain.
    unsure, sure = voxels((0.6, 0.4)), voxels((1.0, 0.0))
    valid = torch.ones(1, 1, dtype=torch.bool)
    assert joint_distance(unsure, unsure, valid).item() == pytest.approx(0.48, rel=1e-5)
    assert joint_distance(sure, sure, valid).item() == pytest.approx(0.0, abs=1e-6)
    assert prediction_distance(unsure, unsure, valid).item() == pytest.approx(0.48, rel=1e-5)


def test_for_more_classes_each_has_squared_denominators() -> None:
    own = voxels((0.5, 0.5, 0.0, 0.0))
    other = voxels((1.0, 0.0, 0.0, 0.0))
    valid = torch.ones(1, 1, dtype=torch.bool)
    # Classes: 1 - 1 / 1.25, 1 - 0 / 0.25, and twice 0 where neither has any.
    expected = (0.2 + 1.0) / 4
    assert class_distance(own, other, valid).item() == pytest.approx(expected, rel=1e-5)
    assert prediction_distance(own, other, valid).item() == pytest.approx(expected, rel=1e-5)
    assert class_distance(own, own, valid).item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("measure", [joint_distance, class_distance])
def test_padding_does_not_count_and_the_target_has_no_gradient(measure: Measure) -> None:
    own = voxels((0.6, 0.4), (0.9, 0.1)).requires_grad_()
    other = voxels((0.3, 0.7), (0.0, 1.0)).requires_grad_()
    valid = torch.tensor([[True, False]])
    found = measure(own, other, valid)
    alone = measure(own[..., :1], other[..., :1], valid[..., :1])
    torch.testing.assert_close(found, alone)
    found.backward()
    assert own.grad is not None
    assert own.grad[..., 0].abs().sum() > 0
    assert not own.grad[..., 1].any()
    assert other.grad is None
