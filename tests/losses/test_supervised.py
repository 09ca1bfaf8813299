import math

import pytest
import torch
from torch import Tensor

from tracoco.errors import UserError
from tracoco.losses.supervised import cross_entropy, dice_loss, supervised_loss
from tracoco.presets import load_config
from tracoco.settings import LossConfig


def logits_of(*probabilities: tuple[float, ...]) -> Tensor:
    """One crop, one voxel for each tuple of class probabilities: [1, C, voxels]."""
    return torch.tensor(probabilities).log().T[None]


def test_cross_entropy_is_the_mean_of_minus_log_p() -> None:
    # Voxel 1: label 1, p = 3/4. Voxel 2: label 0, p = 1/2.
    logits = logits_of((0.25, 0.75), (0.5, 0.5))
    loss = cross_entropy(logits, torch.tensor([[1, 0]]), torch.ones(1, 2, dtype=torch.bool))
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)


def test_dice_of_two_classes_is_that_of_the_foreground() -> None:
    # Foreground p = 3/4 and 1/2, truth 1 and 0: 1 - 2 * 0.75 / (0.5625 + 0.25 + 1).
    logits = logits_of((0.25, 0.75), (0.5, 0.5))
    loss = dice_loss(logits, torch.tensor([[1, 0]]), torch.ones(1, 2, dtype=torch.bool))
    assert loss.item() == pytest.approx(1 - 1.5 / 1.8125, rel=1e-4)


def test_the_loss_is_the_sum_of_both() -> None:
    # The two voxels of the tests above: (log(4/3) + log 2) / 2 and 1 - 1.5 / 1.8125.
    logits = logits_of((0.25, 0.75), (0.5, 0.5))
    loss = supervised_loss(logits, torch.tensor([[1, 0]]), torch.ones(1, 2, dtype=torch.bool))
    expected = (math.log(4 / 3) + math.log(2)) / 2 + 1 - 1.5 / 1.8125
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_dice_of_four_classes_is_the_mean_of_the_three_foreground_classes() -> None:
    # One voxel, label 1, all p = 1/4. Class 1: 1 - 0.5 / 1.0625; classes 2 and 3: 1 - 0 / 0.0625.
    logits = logits_of((0.25, 0.25, 0.25, 0.25))
    loss = dice_loss(logits, torch.tensor([[1]]), torch.ones(1, 1, dtype=torch.bool))
    assert loss.item() == pytest.approx((1 - 0.5 / 1.0625 + 1 + 1) / 3, rel=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("size", [(6, 4), (6, 4, 2)])
def test_padding_takes_no_part(classes: int, size: tuple[int, ...]) -> None:
    logits = torch.randn(2, classes, *size)
    label = torch.randint(classes, (2, *size))
    valid = torch.zeros(2, *size, dtype=torch.bool)
    valid[:, :3] = True
    cropped = supervised_loss(logits[:, :, :3], label[:, :3], valid[:, :3])
    torch.testing.assert_close(supervised_loss(logits, label, valid), cropped)


def test_the_loss_falls_along_its_gradient_towards_the_label() -> None:
    logits = torch.zeros(1, 3, 4, 4, requires_grad=True)
    label = torch.full((1, 4, 4), 2)
    supervised_loss(logits, label, torch.ones(1, 4, 4, dtype=torch.bool)).backward()
    assert logits.grad is not None
    assert (logits.grad[:, 2] < 0).all()
    assert (logits.grad[:, :2] > 0).all()


def test_an_empty_label_is_finite_and_teaches_background() -> None:
    logits = torch.zeros(1, 2, 4, 4, requires_grad=True)
    label = torch.zeros(1, 4, 4, dtype=torch.long)
    loss = supervised_loss(logits, label, torch.ones(1, 4, 4, dtype=torch.bool))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert (logits.grad[:, 1] > 0).all()


TWO_VOXELS = ((0.25, 0.75), (0.5, 0.5))
"""Labels 1 and 0. Foreground 3/4 and 1/2, background 1/4 and 1/2."""


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (LossConfig(dice=0.0), (math.log(4 / 3) + math.log(2)) / 2),
        (LossConfig(cross_entropy=0.0), 1 - 1.5 / 1.8125),
        (LossConfig(cross_entropy=0.0, dice=0.5), (1 - 1.5 / 1.8125) / 2),
        # Linear: 2 * 3/4 / (5/4 + 1).
        (LossConfig(cross_entropy=0.0, dice_linear=True), 1 - 1.5 / 2.25),
        # The background has p = 1/4 and 1/2, truth 0 and 1: 1 - 1 / (0.0625 + 0.25 + 1).
        (
            LossConfig(cross_entropy=0.0, dice_background=True),
            (1 - 1.5 / 1.8125 + 1 - 1 / 1.3125) / 2,
        ),
        # Smooth 1: (1.5 + 1) / (1.8125 + 1).
        (LossConfig(cross_entropy=0.0, dice_smooth=1.0), 1 - 2.5 / 2.8125),
    ],
)
def test_releases_have_other_forms_of_the_loss(form: LossConfig, expected: float) -> None:
    valid = torch.ones(1, 2, dtype=torch.bool)
    loss = supervised_loss(logits_of(*TWO_VOXELS), torch.tensor([[1, 0]]), valid, form)
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_dice_of_single_crops_is_the_mean_of_their_losses() -> None:
    # Two crops of one voxel, both labelled 1, with p = 3/4 and 1/2.
    logits = torch.cat([logits_of((0.25, 0.75)), logits_of((0.5, 0.5))])
    form = LossConfig(cross_entropy=0.0, dice_per_crop=True)
    loss = supervised_loss(logits, torch.tensor([[1], [1]]), None, form)
    assert loss.item() == pytest.approx((1 - 1.5 / 1.5625 + 1 - 1 / 1.25) / 2, rel=1e-4)


def test_a_loss_without_terms_is_refused() -> None:
    with pytest.raises(UserError, match="labels teach nothing"):
        load_config(None, ["loss.dice=0", "loss.cross_entropy=0"])
