import math

import pytest
import torch
from torch import Tensor

from tracoco.geometry import Box, overlap
from tracoco.losses.translation import (
    Overlap,
    negative_entropy,
    overlap_divergence,
    translation_terms,
)


def whole(log_probability: Tensor) -> Overlap:
    """Two crops that lie on each other."""
    size = tuple(log_probability.shape[2:])
    box = Box((0,) * len(size), size)
    valid = torch.ones(len(log_probability), *size, dtype=torch.bool)
    return Overlap([(box, box)] * len(log_probability), valid)


def voxel(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log().reshape(1, -1, 1)


def test_divergence_of_one_voxel_by_hand() -> None:
    # KL((3/4, 1/4) || (1/2, 1/2)) = 3/4 log(3/2) + 1/4 log(1/2); the other way round it differs.
    first, second = voxel(0.75, 0.25), voxel(0.5, 0.5)
    forward = 0.75 * math.log(1.5) - 0.25 * math.log(2)
    assert overlap_divergence(first, second, whole(first)).item() == pytest.approx(forward)
    backward = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(2)
    assert overlap_divergence(second, first, whole(first)).item() == pytest.approx(backward)


def test_negative_entropy_of_one_voxel_by_hand() -> None:
    # Less the entropies of (3/4, 1/4) and of (1/2, 1/2), which is log 2.
    first, second = voxel(0.75, 0.25), voxel(0.5, 0.5)
    expected = 0.75 * math.log(0.75) + 0.25 * math.log(0.25) + math.log(0.5)
    assert negative_entropy(first, second, whole(first)).item() == pytest.approx(expected)


def test_four_classes_sum_over_classes() -> None:
    uniform = voxel(0.25, 0.25, 0.25, 0.25)
    assert negative_entropy(uniform, uniform, whole(uniform)).item() == pytest.approx(
        2 * math.log(0.25)
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    ("volume", "size", "first", "second"),
    [((9, 8), (6, 4), (0, 3), (2, 1)), ((9, 8, 7), (6, 4, 5), (3, 0, 1), (1, 2, 2))],
)
def test_crops_of_one_answer_agree_whatever_their_shift(
    classes: int,
    volume: tuple[int, ...],
    size: tuple[int, ...],
    first: tuple[int, ...],
    second: tuple[int, ...],
) -> None:
    prediction = torch.randn(classes, *volume).log_softmax(dim=0)
    crop, shifted = (prediction[:, *Box(start, size).slices][None] for start in (first, second))
    meeting = Overlap([overlap(first, second, size)], torch.ones(1, *size, dtype=torch.bool))
    assert overlap_divergence(crop, shifted, meeting).item() == pytest.approx(0.0, abs=1e-6)
    misplaced = Overlap([overlap(first, first, size)], torch.ones(1, *size, dtype=torch.bool))
    assert overlap_divergence(crop, shifted, misplaced).item() > 0.1


def test_each_pair_counts_alike_however_small_its_overlap() -> None:
    # Pair 1 overlaps in one voxel and disagrees, pair 2 in four and agrees.
    first = torch.stack([voxel(0.75, 0.25)[0].expand(2, 4)] * 2)
    second = torch.stack([voxel(0.5, 0.5)[0].expand(2, 4), voxel(0.75, 0.25)[0].expand(2, 4)])
    boxes = [overlap((0,), (3,), (4,)), overlap((0,), (0,), (4,))]
    found = overlap_divergence(first, second, Overlap(boxes, torch.ones(2, 4, dtype=torch.bool)))
    expected = (0.75 * math.log(1.5) - 0.25 * math.log(2)) / 2
    assert found.item() == pytest.approx(expected)


def test_padding_in_the_overlap_takes_no_part() -> None:
    first = torch.randn(1, 2, 6).log_softmax(dim=1)
    second = torch.randn(1, 2, 6).log_softmax(dim=1)
    valid = torch.tensor([[False, True, True, True, False, False]])
    box = Box((0,), (6,))
    core = Box((1,), (3,))
    for loss in (overlap_divergence, negative_entropy):
        padded = loss(first, second, Overlap([(box, box)], valid))
        plain = loss(first, second, Overlap([(core, core)], torch.ones_like(valid)))
        torch.testing.assert_close(padded, plain)


def test_the_gradient_reaches_both_crops_and_brings_them_together() -> None:
    first = torch.tensor([1.0, 0.0]).reshape(1, 2, 1).requires_grad_()
    second = torch.tensor([0.0, 0.0]).reshape(1, 2, 1).requires_grad_()
    overlap_divergence(first.log_softmax(1), second.log_softmax(1), whole(first)).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad[0, 0, 0] > 0  # the surer crop becomes less sure of class 0
    assert second.grad[0, 0, 0] < 0  # the other one surer


def test_minimising_the_negative_entropy_softens_an_answer() -> None:
    logits = torch.tensor([2.0, 0.0]).reshape(1, 2, 1).requires_grad_()
    prediction = logits.log_softmax(1)
    negative_entropy(prediction, prediction, whole(logits)).backward()
    assert logits.grad is not None
    assert logits.grad[0, 0, 0] > 0


def test_terms_are_weighted_and_summed_over_networks() -> None:
    view = (voxel(0.75, 0.25), voxel(0.5, 0.5))
    meeting = whole(view[0])
    terms = translation_terms([view, view], meeting, consistency_weight=3.0, entropy_weight=0.5)
    torch.testing.assert_close(terms["translation"], 6 * overlap_divergence(*view, meeting))
    torch.testing.assert_close(terms["entropy"], 1.0 * negative_entropy(*view, meeting))


def test_a_stopped_gradient_leaves_the_first_crop_where_the_divergence_finds_it() -> None:
    first = torch.tensor([1.0, 0.0]).reshape(1, 2, 1).requires_grad_()
    second = torch.tensor([0.0, 0.0]).reshape(1, 2, 1).requires_grad_()
    view = (first.log_softmax(1), second.log_softmax(1))
    terms = translation_terms(
        [view], whole(first), consistency_weight=1.0, entropy_weight=1.0, stop_gradient=True
    )
    assert terms["translation"].item() == pytest.approx(
        overlap_divergence(*view, whole(first)).item()
    )
    divergence = torch.autograd.grad(
        terms["translation"], [first, second], retain_graph=True, allow_unused=True
    )
    assert divergence[0] is None
    assert divergence[1] is not None
    assert divergence[1][0, 0, 0] < 0  # the second crop follows the first
    entropy = torch.autograd.grad(terms["entropy"], first)
    assert entropy[0][0, 0, 0] > 0  # which is softened all the same
