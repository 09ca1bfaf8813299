"""Noisy student: labels and pseudo-labels are learnt alike, and what is ignored does not count."""

import math
from dataclasses import replace

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.data.batch import IGNORED, Batch
from tracoco.errors import UserError
from tracoco.methods.method import Method


def by_hand(labels: list[int], pseudo: list[int], weight: float = 1.0) -> dict[str, float]:
    """Terms of one labelled and one unlabelled crop of four voxels, by a network of zeros."""
    method = make_method("noisy-student", 2, noise=0.0, pseudo_weight=weight)
    method.network = Zeros()
    shape = (1, 2, 2)
    batch = make_batch(2, labelled=1, unlabelled=1, size=(2, 2))
    batch = replace(
        batch,
        labels=torch.tensor(labels).reshape(shape),
        pseudo_labels=torch.tensor(pseudo).reshape(shape),
    )
    output = method(batch, 0)
    return {name: float(term.detach()) for name, term in output.terms.items()}


class Zeros(nn.Module):
    """Every class is as likely as the other."""

    def forward(self, crops: Tensor) -> Tensor:
        return torch.zeros(len(crops), 2, *crops.shape[2:], requires_grad=True)


def test_both_losses_are_cross_entropy_and_dice() -> None:
    # p = 1/2 everywhere: cross-entropy ln 2. Two of four voxels are foreground: the sums of p y,
    # p² and y are 1, 1 and 2, so Dice is 2 / 3. One of three that count: 1/2, 3/4 and 1, Dice 4/7.
    found = by_hand([0, 1, 1, 0], [0, 1, IGNORED, 0], weight=0.5)
    assert found["supervised"] == pytest.approx(math.log(2) + 1 / 3, abs=1e-4)
    assert found["pseudo_labels"] == pytest.approx(0.5 * (math.log(2) + 3 / 7), abs=1e-4)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neither_padding_nor_unsure_voxels_count(dimensions: int) -> None:
    method, batch = make_method("noisy-student", dimensions, noise=0.0), make_batch(dimensions)
    assert batch.pseudo_labels is not None
    valid = batch.first.valid.clone()
    valid[2:, :4] = False
    batch = replace(batch, first=replace(batch.first, valid=valid))
    labels = batch.pseudo_labels.clone()  # type: ignore[union-attr]  # it is not None
    labels[:, :4] = 1 - labels[:, :4]
    assert loss(method, batch) == loss(method, replace(batch, pseudo_labels=labels))
    unsure = batch.pseudo_labels.clone()  # type: ignore[union-attr]  # it is not None
    unsure[:, 8:] = IGNORED
    everywhere = replace(batch, pseudo_labels=unsure)
    fewer = valid.clone()
    fewer[2:, 8:] = False
    as_padding = replace(batch, first=replace(batch.first, valid=fewer))
    assert loss(method, everywhere) == loss(method, as_padding) != loss(method, batch)
    none = replace(batch, pseudo_labels=torch.full_like(labels, IGNORED))
    assert math.isfinite(loss(method, none))


def loss(method: Method, batch: Batch) -> float:
    method.eval()
    return float(method(batch, 0).terms["pseudo_labels"].detach())


def test_pseudo_labels_count_from_the_first_step_and_their_health_is_told() -> None:
    method, batch = make_method("noisy-student", 2, classes=3), make_batch(2)
    assert not method.adaptive
    labels = torch.zeros(2, 16, 16, dtype=torch.long)
    labels[:, :4], labels[:, 4:6], labels[:, 8:] = 1, 2, IGNORED
    batch = replace(batch, pseudo_labels=labels)
    health = method.health(method(batch, 0), batch)
    assert health.class_fractions == pytest.approx((0.25, 0.5, 0.25))
    assert health.likely == pytest.approx(0.5)


def test_without_pseudo_labels_it_says_which_command_makes_them() -> None:
    with pytest.raises(UserError, match="run `tracoco self-train PROJECT`"):
        make_method("noisy-student", 2)(replace(make_batch(2), pseudo_labels=None), 0)
