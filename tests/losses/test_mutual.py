import math

import pytest
import torch
from torch import Tensor

from tracoco.losses.consistency import mutual_loss, sharpened


def voxel(*probabilities: float) -> Tensor:
    """Logits of one voxel in one crop, [1, C, 1]."""
    return torch.tensor(probabilities).log().reshape(1, -1, 1)


ONE = torch.ones(1, 1, dtype=torch.bool)


def loss(*logits: Tensor, valid: Tensor = ONE, detached: bool = False) -> Tensor:
    return mutual_loss(logits, valid, temperature=0.1, detached=detached)


@pytest.mark.parametrize(("before", "after"), [(0.6, 0.98295), (0.5, 0.5), (0.55, 0.88150)])
def test_two_classes_are_sharpened_as_published(before: float, after: float) -> None:
    sharp = sharpened(voxel(before, 1 - before), 0.1)[0, :, 0]
    # The tenth power of p, divided by itself and that of 1 - p.
    assert sharp.tolist() == pytest.approx([after, 1 - after], abs=5e-6)


def test_four_classes_are_sharpened_together() -> None:
    sharp = sharpened(voxel(0.4, 0.3, 0.2, 0.1), 0.1)[0, :, 0]
    powers = [p**10 for p in (0.4, 0.3, 0.2, 0.1)]
    assert sharp.tolist() == pytest.approx([p / sum(powers) for p in powers], rel=1e-4)
    assert sharp[0].item() == pytest.approx(0.946, abs=1e-3)


def test_at_temperature_one_nothing_is_sharpened() -> None:
    assert sharpened(voxel(0.7, 0.2, 0.1), 1.0)[0, :, 0].tolist() == pytest.approx([0.7, 0.2, 0.1])


def test_certain_voxels_have_finite_targets_and_gradients() -> None:
    logits = torch.tensor([60.0, -60.0]).reshape(1, 2, 1).requires_grad_()
    value = loss(logits, -logits)
    value.backward()
    assert value.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(("decoders", "expected"), [(2, 0.29331), (3, 0.87992)])
def test_equal_decoders_that_are_unsure_by_hand(decoders: int, expected: float) -> None:
    # (0.98295 - 0.6)^2 for either class and each ordered pair.
    assert loss(*[voxel(0.6, 0.4)] * decoders).item() == pytest.approx(expected, abs=2e-5)


def test_equal_decoders_that_are_certain_cost_nothing() -> None:
    certain = torch.tensor([40.0, -40.0, -40.0, -40.0]).reshape(1, 4, 1)
    assert loss(certain, certain).item() == 0.0


def test_the_order_of_the_decoders_does_not_matter() -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(3, 1, 4, 5)
    everywhere = torch.ones(1, 5, dtype=torch.bool)
    first, second = loss(a, b, c, valid=everywhere), loss(c, a, b, valid=everywhere)
    torch.testing.assert_close(first, second)


def test_padding_does_not_count() -> None:
    logits = torch.cat([voxel(0.6, 0.4), voxel(0.5, 0.5)], dim=2)
    other = torch.cat([voxel(0.6, 0.4), voxel(0.01, 0.99)], dim=2)
    valid = torch.tensor([[True, False]])
    assert loss(logits, other, valid=valid).item() == pytest.approx(0.29331, abs=2e-5)
    assert loss(logits, other, valid=~valid | ~valid[:, :1]).item() != pytest.approx(0.29331)
    assert loss(logits, other, valid=torch.zeros_like(valid)).item() == 0.0


def test_a_detached_target_teaches_the_other_decoder_alone() -> None:
    # Decoder 1 says (1/2, 1/2), and its target is that of decoder 2, (p, 1 - p) sharpened to all
    # but (1, 0): so it is pulled by d/dz (1/2 - 1)^2 averaged over two classes, that is by -1/4.
    first, second = voxel(0.5, 0.5).requires_grad_(), voxel(0.9, 0.1).requires_grad_()
    loss(first, second, detached=True).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad[0, :, 0].tolist() == pytest.approx([-0.25, 0.25], abs=1e-3)
    # Decoder 2 is pulled to (1/2, 1/2): 2 (0.9 - 0.5) * 0.9 * 0.1 for either class.
    assert second.grad[0, :, 0].tolist() == pytest.approx([0.072, -0.072], abs=1e-3)


def test_an_attached_target_is_moved_too_ten_times_as_steeply() -> None:
    first, second = voxel(0.5, 0.5).requires_grad_(), voxel(0.9, 0.1).requires_grad_()
    loss(first, second, detached=False).backward()
    assert first.grad is not None
    # As a target, sharpened (1/2, 1/2) is to come to (0.9, 0.1): 2 (1/2 - 0.9) * 10 / 4 more.
    assert first.grad[0, 0, 0].item() == pytest.approx(-0.25 - 2.0, abs=2e-3)


def test_half_a_temperature_squares() -> None:
    assert sharpened(voxel(0.6, 0.4), 0.5)[0, 0, 0].item() == pytest.approx(0.36 / 0.52)
    assert math.isclose(0.36 / 0.52, 0.6923, abs_tol=1e-4)
