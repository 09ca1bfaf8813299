import math

import pytest
import torch
from torch import Tensor

from tracoco.methods.urpc import pyramid_loss

ONE = torch.ones(1, 1, dtype=torch.bool)


def voxel(*probabilities: float) -> Tensor:
    """Logits of one voxel in one crop, [1, C, 1]."""
    return torch.tensor(probabilities).log().reshape(1, -1, 1)


def test_two_levels_by_hand() -> None:
    # Mean (0.7, 0.3); divergences 0.15366 and 0.08228; one voxel, so its weight cancels: 0.04 each.
    first = 0.7 * math.log(0.7 / 0.9) + 0.3 * math.log(0.3 / 0.1)
    second = 0.7 * math.log(0.7 / 0.5) + 0.3 * math.log(0.3 / 0.5)
    assert (first, second) == pytest.approx((0.15366, 0.08228), abs=1e-5)
    loss = pyramid_loss([voxel(0.9, 0.1), voxel(0.5, 0.5)], ONE)
    assert loss.item() == pytest.approx(0.15797, abs=1e-5)


def test_a_voxel_counts_less_where_a_level_is_unsure() -> None:
    # One voxel as above and one where the levels agree, so that its distance is 0 and its trust 1.
    levels = [
        torch.cat([voxel(0.9, 0.1), voxel(0.6, 0.4)], dim=2),
        torch.cat([voxel(0.5, 0.5), voxel(0.6, 0.4)], dim=2),
    ]
    loss = pyramid_loss(levels, torch.ones(1, 2, dtype=torch.bool))
    expected = 0.0
    for divergence in (0.15366, 0.08228):
        trust = math.exp(-divergence)
        expected += (0.04 * trust / (trust + 1) + divergence / 2) / 2
    assert loss.item() == pytest.approx(expected, abs=1e-5)


def test_four_classes_have_a_mean_over_classes_and_a_sum_in_the_divergence() -> None:
    first, second = (0.7, 0.1, 0.1, 0.1), (0.1, 0.7, 0.1, 0.1)
    divergence = 0.4 * math.log(0.4 / 0.7) + 0.4 * math.log(0.4 / 0.1)
    loss = pyramid_loss([voxel(*first), voxel(*second)], ONE)
    assert loss.item() == pytest.approx(2 * 0.09 / 4 + divergence, rel=1e-4)


def test_equal_levels_cost_nothing() -> None:
    logits = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    assert pyramid_loss([logits] * 3, torch.ones(2, 5, dtype=torch.bool)).item() == pytest.approx(
        0.0, abs=1e-6
    )


def test_certain_levels_have_finite_value_and_gradient() -> None:
    logits = torch.tensor([60.0, -60.0, -60.0]).reshape(1, 3, 1).requires_grad_()
    for other in (logits.detach(), -logits.detach()):
        loss = pyramid_loss([logits, other], ONE)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_the_gradient_reaches_a_level_through_the_mean_too() -> None:
    # With the mean held fixed, the derivative by the first level's logit is that of its own
    # distance and divergence alone; the numerical one of the whole differs.
    first, second = voxel(0.9, 0.1).double().requires_grad_(), voxel(0.5, 0.5).double()
    assert torch.autograd.gradcheck(lambda z: pyramid_loss([z, second], ONE), (first,))


def test_padding_does_not_count() -> None:
    levels = [
        torch.cat([voxel(0.9, 0.1), voxel(0.99, 0.01)], dim=2),
        torch.cat([voxel(0.5, 0.5), voxel(0.01, 0.99)], dim=2),
    ]
    valid = torch.tensor([[True, False]])
    assert pyramid_loss(levels, valid).item() == pytest.approx(0.15797, abs=1e-5)
    assert pyramid_loss(levels, torch.zeros_like(valid)).item() == 0.0
