import pytest
import torch

from tracoco.methods.health import class_fractions, divergence, structure_fractions


def test_every_class_has_a_share_also_an_absent_one() -> None:
    fractions = class_fractions(torch.tensor([[0, 0], [2, 0]]), classes=4)
    assert fractions == (0.75, 0.0, 0.25, 0.0)


def test_no_labels_have_no_shares() -> None:
    assert class_fractions(torch.zeros(0, dtype=torch.long), classes=2) == (0.0, 0.0)


def test_agreement_is_a_share_of_voxels_and_distance_a_sum_over_a_crop() -> None:
    # Foreground .2 and .2 against .6 and .3 in the first crop, alike in the second.
    foreground = torch.tensor([[0.2, 0.2, 0.9], [0.2, 0.7, 0.9]])
    other = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    valid = torch.tensor([[True, True, False], [True, True, False]])
    pair = [torch.stack([1 - values, values], dim=1) for values in (foreground, other)]
    assert divergence(pair[0], pair[1], valid) == pytest.approx((0.75, 0.25))
    # Of the four voxels inside, the first marks one and the second two, with one in common.
    assert structure_fractions(pair[0], pair[1], valid) == ((0.25,), (0.375,))


def test_distance_is_of_the_whole_foreground_and_not_of_its_classes() -> None:
    # Both give the foreground .6, as class 1 or as class 2.
    first, second = torch.tensor([0.4, 0.6, 0.0]), torch.tensor([0.4, 0.0, 0.6])
    valid = torch.ones(1, 1, dtype=torch.bool)
    assert divergence(first.reshape(1, 3, 1), second.reshape(1, 3, 1), valid) == (0.0, 0.0)
    common, marked = structure_fractions(first.reshape(1, 3, 1), second.reshape(1, 3, 1), valid)
    assert (common, marked) == ((0.0, 0.0), (0.5, 0.5))
