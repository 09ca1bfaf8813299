import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.methods.dhc import (
    DifficultyWeights,
    DistributionWeights,
    class_counts,
    rarity,
)


def predictions(*labels: int, classes: int) -> Tensor:
    """Logits of voxels in a row that have these labels, [1, C, n]."""
    return F.one_hot(torch.tensor([labels]), classes).float().movedim(-1, 1)


def all_of(label: Tensor) -> Tensor:
    return torch.ones_like(label, dtype=torch.bool)


def test_rare_classes_weigh_more_by_hand() -> None:
    # log 1, log 10, log 90, divided by the largest, times 3.
    found = rarity(torch.tensor([900, 90, 10]))
    expected = [0.0, 3 * math.log(10) / math.log(90), 3.0]
    assert expected[1] == pytest.approx(1.535, abs=1e-3)
    assert found.tolist() == pytest.approx(expected)


def test_a_missing_class_counts_as_one_voxel_and_equal_ones_weigh_alike() -> None:
    expected = [0.0, 3 * math.log(9) / math.log(900), 3.0]
    assert rarity(torch.tensor([900, 100, 0])).tolist() == pytest.approx(expected)
    assert rarity(torch.tensor([5, 5])).tolist() == [2.0, 2.0]
    assert rarity(torch.tensor([0, 0])).tolist() == [2.0, 2.0]


def test_voxels_are_counted_where_they_count() -> None:
    label = torch.tensor([[0, 1, 1, 3]])
    counted = torch.tensor([[True, True, False, True]])
    assert class_counts(label, counted, 4).tolist() == [1, 1, 0, 1]


def test_the_average_of_rarity_begins_at_the_labels() -> None:
    weights = DistributionWeights(3, decay=0.9)
    labelled, unlabelled = torch.tensor([900, 90, 10]), torch.tensor([10, 90, 900])
    middle = 3 * math.log(10) / math.log(90)
    first = weights(labelled, unlabelled).tolist()
    assert first == pytest.approx([0.3, middle, 2.7])
    # By now the labels no longer count.
    second = weights(torch.tensor([1, 1, 1]), unlabelled).tolist()
    assert second == pytest.approx([0.57, middle, 2.43])


def test_the_average_of_rarity_begins_at_all_labels_where_these_are_known() -> None:
    weights = DistributionWeights(3, decay=0.9, labelled=(900, 90, 10))
    middle = 3 * math.log(10) / math.log(90)
    assert weights.weights.tolist() == pytest.approx([0.0, middle, 3.0])
    batch, unlabelled = torch.tensor([1, 1, 1]), torch.tensor([10, 90, 900])
    assert weights(batch, unlabelled).tolist() == pytest.approx([0.3, middle, 2.7])


def test_a_dice_that_stays_leaves_only_what_is_missing() -> None:
    # Dice: 2 * 1 / (2 + 1) of class 0, 2 * 1 / (1 + 2) of class 1.
    weights = DifficultyWeights(2, steps=2)
    label = torch.tensor([[0, 1, 1]])
    logits = predictions(0, 0, 1, classes=2)
    weights(logits, label, all_of(label))
    assert weights.dice.tolist() == pytest.approx([2 / 3, 2 / 3])
    learnt, missing = weights.learnt.clone(), weights.missing.clone()
    again = weights(logits, label, all_of(label))
    torch.testing.assert_close(weights.learnt, learnt / 2)
    assert not weights.unlearnt.any()
    torch.testing.assert_close(weights.missing, (missing + 1 / 3) / 2)
    torch.testing.assert_close(again, torch.tensor([2.0, 2.0]))


def test_gains_and_losses_by_hand() -> None:
    weights = DifficultyWeights(2, steps=50)
    weights.dice.copy_(torch.tensor([0.5, 1.0]))
    label = torch.tensor([[0, 1, 1, 1]])
    # Class 0: 2 * 1 / (2 + 1), up from 1/2; class 1: 2 * 2 / (2 + 3), down from 1.
    found = weights(predictions(0, 0, 1, 1, classes=2), label, all_of(label))
    gain = (2 / 3 - 0.5) * math.log((2 / 3) / 0.5) / 50
    loss = (0.8 - 1) * math.log(0.8) / 50
    assert gain > 0
    assert loss > 0
    assert weights.learnt.tolist() == pytest.approx([gain, 0.0])
    assert weights.unlearnt.tolist() == pytest.approx([0.0, loss])
    missing = [49 / 50 + (1 - 2 / 3) / 50, 49 / 50 + (1 - 0.8) / 50]
    assert weights.missing.tolist() == pytest.approx(missing)
    hardness = [
        (1e-8 / (gain + 1e-8)) ** 0.2 * missing[0],
        ((loss + 1e-8) / 1e-8) ** 0.2 * missing[1],
    ]
    expected = [2 * hardness[0] / hardness[1], 2.0]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def test_a_class_that_is_neither_labelled_nor_answered_keeps_its_dice() -> None:
    weights = DifficultyWeights(3, steps=50)
    weights.dice.fill_(0.6)
    label = torch.tensor([[0, 1]])
    weights(predictions(0, 1, classes=3), label, all_of(label))
    assert weights.dice.tolist() == pytest.approx([1.0, 1.0, 0.6])
    assert weights.learnt[2] == weights.unlearnt[2] == 0


def test_a_class_that_is_never_found_has_finite_weights() -> None:
    weights = DifficultyWeights(2, steps=50)
    label = torch.tensor([[0, 1]])
    for _ in range(3):
        found = weights(predictions(0, 0, classes=2), label, all_of(label))
        assert found.isfinite().all()
    assert found[1] == 2.0 > found[0]


def test_padding_does_not_count() -> None:
    found = []
    for last in (0, 1):
        weights = DifficultyWeights(2, steps=50)
        label = torch.tensor([[0, 1, last]])
        valid = torch.tensor([[True, True, False]])
        weights(predictions(0, 1, 1, classes=2), label, valid)
        found.append(weights.dice)
    assert torch.equal(*found)


def test_weights_have_no_gradient() -> None:
    logits = torch.randn(1, 2, 5, requires_grad=True)
    label = torch.tensor([[0, 1, 1, 0, 1]])
    assert not DifficultyWeights(2, steps=50)(logits, label, all_of(label)).requires_grad
