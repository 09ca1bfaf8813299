import math

import pytest
import torch
import torch.nn.functional as F

from tracoco.methods.dhc import weighted_cross_entropy, weighted_dice_loss


def test_the_mean_is_by_weight() -> None:
    # -log(1/2) with weight 1, -log(1/4) with weight 3: (1 + 3 * 2) / 4 of log 2.
    logits = torch.tensor([[[0.5, 0.75], [0.5, 0.25]]]).log()
    label, valid = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
    found = weighted_cross_entropy(logits, label, valid, torch.tensor([1.0, 3.0]))
    assert found.item() == pytest.approx(7 / 4 * math.log(2))


@pytest.mark.parametrize("size", [(5, 4), (5, 4, 3)])
@pytest.mark.parametrize("classes", [2, 4])
def test_it_is_torchs_own_on_voxels_inside(classes: int, size: tuple[int, ...]) -> None:
    logits, label = torch.randn(2, classes, *size), torch.randint(classes, (2, *size))
    valid, weights = torch.rand(2, *size) < 0.7, torch.rand(classes)
    expected = F.cross_entropy(
        logits.movedim(1, -1)[valid], label[valid], weight=weights, reduction="mean"
    )
    found = weighted_cross_entropy(logits, label, valid, weights)
    torch.testing.assert_close(found, expected)


def test_without_any_weight_it_is_nothing_and_still_connected() -> None:
    logits = torch.randn(1, 2, 4, requires_grad=True)
    label, valid = torch.zeros(1, 4).long(), torch.ones(1, 4, dtype=torch.bool)
    loss = weighted_cross_entropy(logits, label, valid, torch.tensor([0.0, 2.0]))
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_dice_of_each_foreground_class_by_its_weight() -> None:
    # Class 1 is right. Class 2 is taken for background: 1 - (2 * 0 + 1) / (0 + 1 + 1), five times.
    prediction = torch.tensor([[0, 1, 1, 0]])
    logits = 100 * F.one_hot(prediction, 3).float().movedim(-1, 1)
    label, valid = torch.tensor([[0, 1, 1, 2]]), torch.ones(1, 4, dtype=torch.bool)
    found = weighted_dice_loss(logits, label, valid, torch.tensor([7.0, 1.0, 5.0]))
    assert found.item() == pytest.approx(5 * 0.5 / 2, rel=1e-4)
    plain = weighted_dice_loss(logits, label, valid, torch.ones(3))
    assert plain.item() == pytest.approx(0.5 / 2, rel=1e-4)
