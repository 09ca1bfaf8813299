import pytest
import torch
from torch import Tensor

from tracoco.methods.dmd import soft_dice_loss


def foreground(*values: float) -> Tensor:
    """Two classes of voxels in a row, [1, 2, n]."""
    row = torch.tensor([values])
    return torch.stack([1 - row, row], dim=1)


def valid(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def test_one_sure_and_one_unsure_answer_by_hand() -> None:
    # sum(pq) = 1/2, sum(p^2) = 1, sum(q^2) = 1/2: 1 - 1 / 1.5.
    first, second = foreground(1.0, 0.0), foreground(0.5, 0.5)
    assert soft_dice_loss(first, second, valid(1, 2)).item() == pytest.approx(1 / 3, rel=1e-4)
    assert soft_dice_loss(second, first, valid(1, 2)).item() == pytest.approx(1 / 3, rel=1e-4)


@pytest.mark.parametrize("size", [(5, 4), (5, 4, 3)])
@pytest.mark.parametrize("classes", [2, 4])
def test_equal_answers_are_not_apart_however_unsure(classes: int, size: tuple[int, ...]) -> None:
    prediction = torch.rand(2, classes, *size).softmax(dim=1)
    assert soft_dice_loss(prediction, prediction, valid(2, *size)).item() == pytest.approx(
        0, abs=1e-6
    )


def test_classes_count_alike_and_the_background_does_not() -> None:
    # Class 1 agrees, classes 2 and 3 are exchanged; class 1 is everywhere else.
    first, second = torch.zeros(1, 4, 100), torch.zeros(1, 4, 100)
    first[:, 1, :98] = second[:, 1, :98] = 1.0
    first[:, 2, 98] = first[:, 3, 99] = 1.0
    second[:, 3, 98] = second[:, 2, 99] = 1.0
    first[:, 0], second[:, 0] = 0.3, 0.9
    found = soft_dice_loss(first, second, valid(1, 100))
    assert found.item() == pytest.approx(2 / 3, rel=1e-4)


def test_sums_are_over_all_crops_together() -> None:
    first = torch.cat([foreground(1.0, 0.0), foreground(1.0, 1.0)])
    second = torch.cat([foreground(0.0, 1.0), foreground(1.0, 1.0)])
    assert soft_dice_loss(first, second, valid(2, 2)).item() == pytest.approx(1 / 3, rel=1e-4)


def test_padding_does_not_count_and_its_absence_of_voxels_is_no_distance() -> None:
    first, second = foreground(1.0, 0.0, 1.0), foreground(0.5, 0.5, 0.0)
    mask = torch.tensor([[True, True, False]])
    assert soft_dice_loss(first, second, mask).item() == pytest.approx(1 / 3, rel=1e-4)
    assert soft_dice_loss(first, second, ~valid(1, 3)).item() == 0.0


def test_each_is_pulled_to_the_other() -> None:
    first = foreground(0.8, 0.6).requires_grad_()
    second = foreground(0.2, 0.6).requires_grad_()
    soft_dice_loss(first, second, valid(1, 2)).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert second.grad[0, 1, 0] < 0 < first.grad[0, 1, 0]
