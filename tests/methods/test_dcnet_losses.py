import math

import pytest
import torch
from torch import Tensor

from tracoco.methods.dcnet import (
    attention_loss,
    cross_label_loss,
    follow_loss,
    least_confidence,
    sure_classes,
)

ONE = torch.ones(1, 1, dtype=torch.bool)
HERE, NOWHERE = torch.tensor(True), torch.tensor(False)  # noqa: FBT003 - values, not switches


def voxel(*probabilities: float) -> Tensor:
    """Logits of one voxel in one crop, [1, C, 1]."""
    return torch.tensor(probabilities).log().reshape(1, -1, 1)


def follow(first: Tensor, second: Tensor, threshold: float, temperature: float = 1.0) -> Tensor:
    sure = sure_classes((first, second), torch.tensor(threshold))
    return follow_loss((first, second), sure, ONE, temperature=temperature)


def test_the_confidence_is_that_of_the_less_sure_decoder_inside_the_scan() -> None:
    sure = torch.cat([voxel(0.9, 0.1), voxel(0.5, 0.5)], dim=2)
    less = torch.cat([voxel(0.2, 0.8), voxel(0.5, 0.5)], dim=2)
    valid = torch.tensor([[True, False]])
    assert least_confidence([sure, less], valid).item() == pytest.approx(0.8)
    assert least_confidence([sure, less], valid | True).item() == pytest.approx(0.65)


def test_both_must_be_sure_of_a_class() -> None:
    logits = voxel(0.6, 0.3, 0.05, 0.05), voxel(0.4, 0.5, 0.05, 0.05)
    assert sure_classes(logits, torch.tensor(0.35)).flatten().tolist() == [True, *[False] * 3]
    assert sure_classes(logits, torch.tensor(0.25)).flatten().tolist() == [True, True, False, False]


def test_the_smaller_probability_follows_by_hand() -> None:
    # (0.6 - 0.5)^2 of class 0, where the first leads, and of class 1, where the second does; / 2.
    loss = follow(voxel(0.6, 0.4), voxel(0.5, 0.5), threshold=0.7)
    assert loss.item() == pytest.approx(0.01)


def test_following_is_sharpened() -> None:
    loss = follow(voxel(0.6, 0.4), voxel(0.5, 0.5), threshold=0.7, temperature=0.5)
    assert loss.item() == pytest.approx((0.36 / 0.52 - 0.5) ** 2, rel=1e-4)


def test_where_both_are_sure_nobody_follows() -> None:
    # Both give class 0 more than 0.45, so that class 1 alone is left.
    assert follow(voxel(0.6, 0.4), voxel(0.5, 0.5), 0.45).item() == pytest.approx(0.005)
    assert follow(voxel(0.6, 0.4), voxel(0.5, 0.5), 0.3).item() == 0.0


def test_no_gradient_reaches_the_leader() -> None:
    # Four classes; the first decoder leads in class 0, the second in class 1, and they agree on
    # the others.
    first = voxel(0.5, 0.3, 0.1, 0.1).requires_grad_()
    second = voxel(0.3, 0.5, 0.1, 0.1).requires_grad_()
    follow(first, second, 0.9).backward()
    assert first.grad is not None
    assert second.grad is not None
    # Of the first, class 1 alone has a distance: d/dp (0.3 - 0.5)^2 / 4 = -0.1, through the
    # softmax -0.1 * 0.3 * (1 - 0.3) for its own logit, and +0.1 * 0.3 * 0.5 for that of class 0.
    assert first.grad[0, :2, 0].tolist() == pytest.approx([0.015, -0.021], rel=1e-4)
    assert second.grad[0, :2, 0].tolist() == pytest.approx([-0.021, 0.015], rel=1e-4)


def test_sure_decoders_learn_each_others_labels() -> None:
    logits = voxel(0.9, 0.1), voxel(0.8, 0.2)
    sure = sure_classes(logits, torch.tensor(0.7))
    loss = cross_label_loss(logits, sure, ONE, everywhere=NOWHERE)
    assert loss.item() == pytest.approx(-math.log(0.9) - math.log(0.8), rel=1e-5)


def test_unsure_voxels_have_no_label_but_count_in_the_mean() -> None:
    first = torch.cat([voxel(0.9, 0.1), voxel(0.9, 0.1)], dim=2)
    second = torch.cat([voxel(0.8, 0.2), voxel(0.2, 0.8)], dim=2)
    sure = sure_classes((first, second), torch.tensor(0.7))
    both = torch.ones(1, 2, dtype=torch.bool)
    loss = cross_label_loss((first, second), sure, both, everywhere=NOWHERE)
    assert loss.item() == pytest.approx((-math.log(0.9) - math.log(0.8)) / 2, rel=1e-5)
    loss = cross_label_loss((first, second), sure, both, everywhere=HERE)
    # Everywhere, the second voxel's labels are 1 for the first decoder and 0 for the second.
    expected = -math.log(0.9) - math.log(0.8) - math.log(0.1) - math.log(0.2)
    assert loss.item() == pytest.approx(expected / 2, rel=1e-5)


def test_a_label_is_the_likeliest_class_that_both_are_sure_of() -> None:
    # Both give class 1 more than 0.25; the second decoder's likeliest, class 0, is not among them.
    logits = voxel(0.2, 0.6, 0.1, 0.1), voxel(0.45, 0.4, 0.1, 0.05)
    sure = sure_classes(logits, torch.tensor(0.25))
    loss = cross_label_loss(logits, sure, ONE, everywhere=NOWHERE)
    assert loss.item() == pytest.approx(-math.log(0.6) - math.log(0.4), rel=1e-5)


def test_padding_counts_nowhere() -> None:
    first = torch.cat([voxel(0.6, 0.4), voxel(0.9, 0.1)], dim=2)
    second = torch.cat([voxel(0.5, 0.5), voxel(0.2, 0.8)], dim=2)
    valid = torch.tensor([[True, False]])
    sure = sure_classes((first, second), torch.tensor(0.7))
    follows = follow_loss((first, second), sure, valid, temperature=1.0)
    assert follows.item() == pytest.approx(0.01)
    labels = cross_label_loss((first, second), sure, valid, everywhere=HERE)
    assert labels.item() == pytest.approx(-math.log(0.6) - math.log(0.5), rel=1e-5)


def test_attention_by_hand() -> None:
    # Mean squares (1 + 9) / 2 = 5 and (4 + 16) / 2 = 10: of length 1, (0.447, 0.894).
    maps = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    guide = torch.tensor([[[1.0, 0.0]]])
    valid = torch.ones(1, 2, dtype=torch.bool)
    expected = ((1 / math.sqrt(5) - 1) ** 2 + 4 / 5) / 2
    assert attention_loss(maps, guide, valid).item() == pytest.approx(expected, rel=1e-5)


def test_attention_does_not_go_by_the_scale_of_maps() -> None:
    torch.manual_seed(0)
    learner, guide = torch.randn(2, 3, 4, 4), torch.randn(2, 5, 4, 4)
    valid = torch.ones(2, 8, 8, dtype=torch.bool)
    plain = attention_loss(learner, guide, valid)
    torch.testing.assert_close(attention_loss(3 * learner, 0.1 * guide, valid), plain)
    assert attention_loss(learner, 2 * learner, valid).item() == pytest.approx(0.0, abs=1e-12)


def test_attention_teaches_the_learner_alone() -> None:
    torch.manual_seed(0)
    learner, guide = torch.randn(2, 3, 4, 4, 4), torch.randn(2, 5, 4, 4, 4)
    learner.requires_grad_()
    guide.requires_grad_()
    attention_loss(learner, guide, torch.ones(2, 8, 8, 8, dtype=torch.bool)).backward()
    assert learner.grad is not None
    assert learner.grad.abs().sum() > 0
    assert guide.grad is None


def test_attention_to_padding_does_not_count() -> None:
    learner, guide = torch.rand(1, 2, 4, 4), torch.rand(1, 2, 4, 4)
    valid = torch.ones(1, 8, 8, dtype=torch.bool)
    valid[:, 4:] = False
    cut = attention_loss(learner[:, :, :2], guide[:, :, :2], valid[:, :4])
    learner[:, :, 2:] = 50.0
    torch.testing.assert_close(attention_loss(learner, guide, valid), cut)
