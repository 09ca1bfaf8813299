import math
from typing import Any

import pytest
from fixed_predictions import Answering, everywhere
from samples import make_batch, make_method
from torch import nn

from tracoco.methods.dmd import DMD


def make(
    first: Answering, second: Answering, dimensions: int = 3, classes: int = 2, **settings: Any
) -> DMD:
    method = make_method("dmd", dimensions, classes, **settings)
    assert isinstance(method, DMD)
    method.networks = nn.ModuleList([first, second])
    return method


def softened(odds: float) -> float:
    return odds / (1 + odds)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_distillation_by_hand(dimensions: int) -> None:
    # Logits 0 and 2 of the foreground, halved: sigmoid(0) = .5 and sigmoid(1) = .7311.
    surer = softened(math.exp(2))
    assert softened(math.exp(1)) == pytest.approx(0.7311, abs=1e-4)
    dice = 1 - 2 * 0.5 * 0.7310586 / (0.25 + 0.7310586**2)
    networks = [Answering(everywhere(1 - p, p, dimensions=dimensions)) for p in (0.5, surer)]
    method = make(networks[0], networks[1], dimensions)
    for step in (0, 1000):
        term = method(make_batch(dimensions), step).terms["distillation"].item()
        assert term == pytest.approx(4 * dice, rel=1e-4)


def test_weight_and_temperature_are_settings() -> None:
    networks = Answering(everywhere(0.5, 0.5)), Answering(everywhere(0.25, 0.75))
    method = make(*networks, unsupervised_weight=1.0, temperature=1.0)
    dice = 1 - 2 * 0.5 * 0.75 / (0.25 + 0.5625)
    assert method(make_batch(), 0).terms["distillation"].item() == pytest.approx(dice, rel=1e-4)


@pytest.mark.parametrize("classes", [2, 4])
def test_equal_networks_are_not_apart(classes: int) -> None:
    rest = [0.4 / (classes - 1)] * (classes - 1)
    networks = [Answering(everywhere(0.6, *rest)) for _ in range(2)]
    method = make(networks[0], networks[1], classes=classes)
    term = method(make_batch(classes=classes), 0).terms["distillation"].item()
    assert term == pytest.approx(0, abs=1e-5)


def test_unlabelled_crops_pull_each_network_to_the_other() -> None:
    first, second = Answering(everywhere(0.8, 0.2)), Answering(everywhere(0.3, 0.7))
    batch = make_batch()
    batch.first.valid[:2] = False
    make(first, second)(batch, 0).terms["distillation"].backward()
    one, two = first.logits[0].grad, second.logits[0].grad
    assert one is not None
    assert two is not None
    assert one[0, 1].item() < 0 < two[0, 1].item()


def test_labelled_crops_count_too_and_padding_does_not() -> None:
    method = make(Answering(everywhere(0.8, 0.2)), Answering(everywhere(0.3, 0.7)))
    batch = make_batch()
    batch.first.valid[2:] = False
    assert method(batch, 0).terms["distillation"].item() > 0.1
    batch.first.valid[:] = False
    assert method(batch, 0).terms["distillation"].item() == 0.0
