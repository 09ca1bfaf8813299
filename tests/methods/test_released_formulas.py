"""The release's formulas, with values worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from tracoco.geometry import Box
from tracoco.losses.translation import Overlap
from tracoco.methods.tracoco_as_released import (
    binary_crc,
    clamped_negative_entropy,
    halved_supervised_loss,
    multiclass_crc,
    released_dice,
    spatial_divergence,
)

THRESHOLDS = {"gamma": 0.65, "beta": 0.1}


def voxel(*probability: float) -> Tensor:
    """One voxel in 2D, [1, C, 1, 1]."""
    return torch.tensor(probability).reshape(1, -1, 1, 1)


def valid(count: int = 1) -> Tensor:
    return torch.ones(1, count, 1, dtype=torch.bool)


def line_overlap(crops: int, size: tuple[int, ...] = (2, 1)) -> Overlap:
    whole = Box((0,) * len(size), size)
    return Overlap([(whole, whole)] * crops, torch.ones(crops, *size, dtype=torch.bool))


def test_the_divergence_is_of_positions_along_the_first_axis() -> None:
    """Softmax of (0, 1) is (.26894, .73106); KL of its reverse is .46212, a quarter of the mean."""
    first = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).reshape(1, 2, 2, 1)
    second = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).reshape(1, 2, 2, 1)
    assert spatial_divergence(first, second, line_overlap(1)).item() == pytest.approx(
        0.115529, abs=2e-6
    )


def test_the_divergence_is_summed_over_crops_and_blind_to_logits_beyond_one() -> None:
    first = torch.tensor([[-3.0, 5.0], [0.0, 0.0]]).reshape(1, 2, 2, 1).repeat(2, 1, 1, 1)
    second = torch.tensor([[9.0, -1.0], [0.0, 0.0]]).reshape(1, 2, 2, 1).repeat(2, 1, 1, 1)
    first.requires_grad_()
    value = spatial_divergence(first, second, line_overlap(2))
    assert value.item() == pytest.approx(2 * 0.115529, abs=4e-6)
    value.backward()
    assert first.grad is not None
    assert not first.grad[:, 0].any()


def test_the_divergence_cannot_tell_classes_apart() -> None:
    """Opposite answers everywhere, and yet no divergence: along the axis nothing changes."""
    first = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1, 1).expand(1, 2, 3, 2, 2)
    overlap = line_overlap(1, (3, 2, 2))
    assert spatial_divergence(first, first.flip(1), overlap).item() == pytest.approx(0, abs=1e-7)


def test_the_divergence_runs_from_the_second_crop_to_the_first() -> None:
    """KL((.73106, .26894) || (.5, .5)) = .11102, halved by the other class, halved by the mean."""
    flat = torch.zeros(1, 2, 2, 1)
    steep = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).reshape(1, 2, 2, 1)
    forward = spatial_divergence(flat, steep, line_overlap(1)).item()
    assert forward == pytest.approx((math.log(2) - 0.582203) / 4, abs=2e-6)
    assert spatial_divergence(steep, flat, line_overlap(1)).item() != pytest.approx(forward)


def test_negative_entropy_is_of_clamped_logits_and_a_mean_over_crops() -> None:
    """Logits (10, -10) count as (1, 0): -.58220; equal ones give -.69315; the mean is -.63767."""
    sure = torch.tensor([10.0, -10.0]).reshape(1, 2, 1, 1).expand(1, 2, 2, 1)
    value = clamped_negative_entropy(torch.zeros(1, 2, 2, 1), sure, line_overlap(1))
    assert value.item() == pytest.approx(-0.637675, abs=2e-6)


def test_padding_counts_nothing() -> None:
    first = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).reshape(1, 2, 2, 1)
    overlap = line_overlap(1)
    nothing = Overlap(overlap.boxes, torch.zeros(1, *first.shape[2:], dtype=torch.bool))
    assert spatial_divergence(first, first.flip(2), nothing).item() == 0
    assert clamped_negative_entropy(first, first, nothing).item() == 0


@pytest.mark.parametrize(
    ("peer", "prediction", "expected"),
    [
        ((0.55, 0.45), (0.2, 0.8), 0.0),
        ((0.65, 0.35), (0.2, 0.8), 0.65 * -math.log(0.2)),
        ((0.95, 0.05), (0.2, 0.8), -math.log(0.2)),
        ((0.95, 0.05), (0.8, 0.2), -math.log(0.8)),
        ((0.05, 0.95), (0.8, 0.2), -math.log(0.2)),
    ],
)
def test_for_two_classes_crc_is_cross_entropy_of_confident_voxels(
    peer: tuple[float, ...], prediction: tuple[float, ...], expected: float
) -> None:
    """.95 + .05 = 1: above .9 the two parts add up to plain cross-entropy."""
    loss = binary_crc(voxel(*prediction).log(), voxel(*peer), valid(), **THRESHOLDS)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_each_part_of_crc_is_a_mean_of_the_voxels_that_pass_its_gate() -> None:
    """Voxels of confidence .95, .65 and .55: the first part has two of them, the second one."""
    peer = torch.tensor([[0.95, 0.65, 0.55], [0.05, 0.35, 0.45]]).reshape(1, 2, 3, 1)
    prediction = torch.tensor([0.2, 0.8]).reshape(1, 2, 1, 1).expand(1, 2, 3, 1).log()
    loss = binary_crc(prediction, peer, valid(3), **THRESHOLDS)
    positive, negative = (0.95 + 0.65) / 2 * -math.log(0.2), 0.05 * -math.log(0.2)
    assert loss.item() == pytest.approx(positive + negative, abs=1e-6)


def test_crc_of_nothing_confident_is_zero_and_connected() -> None:
    logits = torch.zeros(1, 2, 1, 1, requires_grad=True)
    loss = binary_crc(logits, voxel(0.5, 0.5), valid(), **THRESHOLDS)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None


def test_for_more_classes_the_inverted_bits_count_the_target_twice() -> None:
    """.9 ln 4 + .02 (3 + 2) (-ln .75) / 4."""
    logits = torch.zeros(1, 4, 1, 1, requires_grad=True)
    peer = voxel(0.9, 0.05, 0.03, 0.02)
    loss = multiclass_crc(logits, peer, valid(), **THRESHOLDS)
    expected = 0.9 * math.log(4) + 0.02 * 5 * -math.log(0.75) / 4
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_for_more_classes_the_negative_part_pushes_the_target_down() -> None:
    logits = torch.zeros(1, 4, 1, 1, requires_grad=True)
    peer = voxel(0.6, 0.25, 0.1, 0.05)
    multiclass_crc(logits, peer, valid(), **THRESHOLDS).backward()
    assert logits.grad is not None
    assert logits.grad[0, 0, 0, 0] > 0


@pytest.mark.parametrize("crc", [binary_crc, multiclass_crc])
def test_no_gradient_reaches_the_peer(crc: type) -> None:
    peer = voxel(0.95, 0.05).requires_grad_()
    logits = torch.zeros(1, 2, 1, 1, requires_grad=True)
    crc(logits, peer, valid(), **THRESHOLDS).backward()
    assert peer.grad is None


def test_one_minus_p_is_clamped_so_a_certain_mistake_teaches_nothing() -> None:
    logits = torch.tensor([-40.0, 40.0]).reshape(1, 2, 1, 1).requires_grad_()
    peer = voxel(0.96, 0.04)
    loss = binary_crc(logits, peer, valid(), gamma=1.0, beta=0.1)
    loss.backward()
    assert loss.item() == pytest.approx(0.04 * -math.log(1e-6), rel=1e-5)
    assert logits.grad is not None
    assert not logits.grad.any()


def test_the_supervised_loss_is_halved() -> None:
    """Even answers to a foreground of one voxel in two: ln 2, and 1 - 2 (.5) / (.5 + 1) = 1/3."""
    label = torch.tensor([0, 1]).reshape(1, 2, 1)
    loss = halved_supervised_loss(torch.zeros(1, 2, 2, 1), label, valid(2))
    assert loss.item() == pytest.approx((math.log(2) + 1 / 3) / 2, abs=1e-4)


def test_dice_of_more_classes_counts_the_background() -> None:
    """Four even classes, voxels of 0 and 1: Dice .5 / (.125 + 1) twice, and 0 twice."""
    label = torch.tensor([0, 1]).reshape(1, 2, 1)
    loss = released_dice(torch.zeros(1, 4, 2, 1), label, valid(2))
    assert loss.item() == pytest.approx(1 - 2 * (0.5 / 1.125) / 4, abs=1e-4)
