import math

import pytest
import torch
from torch import Tensor

from tracoco.losses.consistency import normalised_entropy, self_information, weighted_mse


def one_voxel(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities).reshape(1, -1, 1)


@pytest.mark.parametrize("classes", [2, 4, 16])
def test_entropy_is_one_where_all_classes_are_alike_and_zero_where_one_is_certain(
    classes: int,
) -> None:
    alike = one_voxel(*[1 / classes] * classes)
    certain = one_voxel(1.0, *[0.0] * (classes - 1))
    assert normalised_entropy(alike).item() == pytest.approx(1.0)
    assert normalised_entropy(certain).item() == 0.0


def test_self_information_by_hand() -> None:
    # -.9 log2 .9 and -.1 log2 .1; of four classes half of each, since log2 4 is 2.
    assert self_information(one_voxel(0.9, 0.1)).flatten().tolist() == pytest.approx(
        [0.1368, 0.3322], abs=1e-4
    )
    of_four = self_information(one_voxel(0.9, 0.1, 0.0, 0.0)).flatten().tolist()
    assert of_four == pytest.approx([0.0684, 0.1661, 0.0, 0.0], abs=1e-4)


def test_a_single_class_is_never_in_doubt() -> None:
    assert normalised_entropy(torch.ones(1, 1, 3)).tolist() == [[0.0] * 3]


@pytest.mark.parametrize("apart", [0.0, 1.0, 200.0])
def test_the_gradient_is_finite_however_sure_the_answer(apart: float) -> None:
    logits = torch.tensor([[[apart], [0.0]]], requires_grad=True)
    normalised_entropy(logits.softmax(dim=1)).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert bool(logits.grad.any()) == (apart == 1.0)


def test_weighted_mse_by_hand() -> None:
    # Squares .04 and .16, each in both channels; weights 1 and 1/4; the third voxel is padding.
    own = torch.tensor([[[0.7, 0.9, 0.0], [0.3, 0.1, 1.0]]], requires_grad=True)
    target = torch.tensor([[[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.25, 1.0]], requires_grad=True)
    loss = weighted_mse(own, target, weight, torch.tensor([[True, True, False]]))
    assert loss.item() == pytest.approx((0.04 + 0.16 / 4) / 2)
    loss.backward()
    assert own.grad is not None
    assert own.grad[0, 0, 0] > 0 > own.grad[0, 1, 0]
    assert not own.grad[..., 2].any()
    assert target.grad is None
    assert weight.grad is None


def test_entropy_falls_towards_the_likelier_class() -> None:
    logits = torch.tensor([[[math.log(3)], [0.0]]], requires_grad=True)
    normalised_entropy(logits.softmax(dim=1)).sum().backward()
    assert logits.grad is not None
    assert logits.grad[0, 0] < 0 < logits.grad[0, 1]
