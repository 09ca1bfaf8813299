import math
from typing import Any

import pytest
import torch
from fixed_predictions import Answering, by_halves, everywhere
from samples import make_batch, make_method

from tracoco.methods.fixmatch import FixMatch

SURE, UNSURE = 0.97, 0.9


def make(dimensions: int = 3, classes: int = 2, **settings: Any) -> FixMatch:
    method = make_method("fixmatch", dimensions, classes, cutmix=False, **settings)
    assert isinstance(method, FixMatch)
    return method


@pytest.mark.parametrize("dimensions", [2, 3])
def test_half_of_the_voxels_with_a_loss_of_one_make_a_half(dimensions: int) -> None:
    def prediction(first: float, second: float) -> torch.Tensor:
        one, other = (everywhere(p, 1 - p, dimensions=dimensions) for p in (first, second))
        return by_halves(one, other)

    method = make(dimensions)
    # The training pass is sure of half the voxels; the strong view has -log(1/e) everywhere.
    method.network = Answering(prediction(SURE, UNSURE), prediction(1 / math.e, 1 / math.e))
    assert method(make_batch(dimensions), 0).terms["strong"].item() == pytest.approx(0.5, rel=1e-5)


def test_the_weight_is_a_setting_and_does_not_rise() -> None:
    method = make(unsupervised_weight=3.0)
    for step in (0, 1000):
        method.network = Answering(
            everywhere(SURE, 1 - SURE), everywhere(1 / math.e, 1 - 1 / math.e)
        )
        assert method(make_batch(), step).terms["strong"].item() == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("loss", ["ce", "dice"])
@pytest.mark.parametrize("classes", [2, 4])
def test_below_the_threshold_nothing_is_learnt(loss: str, classes: int) -> None:
    rest = [(1 - UNSURE) / (classes - 1)] * (classes - 1)
    network = Answering(everywhere(UNSURE, *rest))
    method = make(classes=classes, loss=loss)
    method.network = network
    strong = method(make_batch(classes=classes), 0).terms["strong"]
    strong.backward()
    assert strong.item() == 0.0
    grad = network.logits[0].grad
    assert grad is not None
    assert not grad.any()


def test_what_is_sure_and_holds_in_the_strong_view_costs_little() -> None:
    method = make()
    method.network = Answering(everywhere(0.999, 0.001))
    assert method(make_batch(), 0).terms["strong"].item() == pytest.approx(
        -math.log(0.999), rel=1e-3
    )


def test_the_strong_view_learns_and_the_label_does_not() -> None:
    method = make()
    network = Answering(everywhere(SURE, 1 - SURE), everywhere(0.5, 0.5))
    method.network = network
    method(make_batch(), 0).terms["strong"].backward()
    label, learner = (parameter.grad for parameter in network.logits)
    assert label is None or not label.any()
    assert learner is not None
    assert learner[0, 0].item() < 0 < learner[0, 1].item()  # to the sure class


def test_the_mean_is_over_voxels_inside() -> None:
    batch = make_batch()
    batch.first.valid[:, :, :, :4] = False
    method = make()
    sure = by_halves(everywhere(SURE, 1 - SURE), everywhere(UNSURE, 1 - UNSURE))
    method.network = Answering(sure, everywhere(1 / math.e, 1 - 1 / math.e))
    # 4 of the 12 slices that are left count.
    assert method(batch, 0).terms["strong"].item() == pytest.approx(1 / 3, rel=1e-5)


def test_dice_is_the_other_loss() -> None:
    method = make(loss="dice")
    method.network = Answering(everywhere(SURE, 1 - SURE), everywhere(0.75, 0.25))
    assert method(make_batch(), 0).terms["strong"].item() == pytest.approx(0.52, rel=1e-4)


def test_the_strong_pass_sees_a_strong_view_of_the_unlabelled_crops() -> None:
    method = make()
    network = Answering(everywhere(SURE, 1 - SURE))
    method.network = network
    batch = make_batch()
    torch.manual_seed(1)
    method(batch, 0)
    assert torch.equal(network.calls[0], batch.first.values)
    assert network.calls[1].shape == batch.first.values[2:].shape
    assert not torch.equal(network.calls[1], batch.first.values[2:])
