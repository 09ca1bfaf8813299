import math
from typing import Any

import pytest
import torch
from fixed_predictions import Answering, by_halves, everywhere
from samples import make_batch, make_method, measured

from tracoco.methods.entropy_minimisation import EntropyMinimisation

STEPS = 30


def make(
    network: Answering, dimensions: int = 3, classes: int = 2, **settings: Any
) -> EntropyMinimisation:
    method = make_method("entropy-minimisation", dimensions, classes, STEPS, **settings)
    assert isinstance(method, EntropyMinimisation)
    method.network = network
    return method


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_entropy_by_hand_and_its_ramp(dimensions: int) -> None:
    # 3/4 log2(4/3) + 1/4 log2(4)
    entropy = 0.75 * math.log2(4 / 3) + 0.5
    method = make(Answering(everywhere(0.75, 0.25, dimensions=dimensions)), dimensions)
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (1000, 1.0)]:
        term = method(make_batch(dimensions), step).terms["entropy"].item()
        assert term == pytest.approx(0.2 * ramp * entropy, rel=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_equally_likely_classes_have_an_entropy_of_one(classes: int) -> None:
    method = make(
        Answering(everywhere(*[1 / classes] * classes)),
        classes=classes,
        unsupervised_weight=3.0,
        rampup_steps=10,
    )
    term = method(make_batch(classes=classes), 10).terms["entropy"]
    assert term.item() == pytest.approx(3.0, rel=1e-5)


def test_the_likelier_class_becomes_likelier() -> None:
    network = Answering(everywhere(0.6, 0.3, 0.1))
    make(network, classes=3)(make_batch(classes=3), STEPS).terms["entropy"].backward()
    grad = network.logits[0].grad
    assert grad is not None
    assert grad[0, 0].item() < 0 < grad[0, 2].item()


def test_a_certain_answer_has_no_entropy_and_no_gradient() -> None:
    network = Answering(everywhere(1.0, 1e-44))
    term = make(network)(make_batch(), STEPS).terms["entropy"]
    term.backward()
    assert term.item() == pytest.approx(0.0, abs=1e-6)
    grad = network.logits[0].grad
    assert grad is not None
    assert grad.isfinite().all()


def test_only_unlabelled_voxels_inside_count() -> None:
    unsure, sure = everywhere(0.5, 0.5), everywhere(1.0, 1e-30)
    method = make(Answering(by_halves(unsure, sure)))
    batch = make_batch()
    batch.first.valid[2:, :, :, 12:] = False
    output = method(batch, STEPS)
    assert output.terms["entropy"].item() == pytest.approx(0.2 * 2 / 3, rel=1e-5)
    health = {"class/0": 1.0, "class/1": 0.0, "entropy": 2 / 3}
    assert measured(method.health(output, batch)) == pytest.approx(health, rel=1e-5)
    batch.first.valid[2:] = False
    assert method(batch, STEPS).terms["entropy"].item() == 0.0


def test_on_all_crops_the_labelled_ones_count_too() -> None:
    batch = make_batch(labelled=1, unlabelled=1)
    sure, unsure = everywhere(1 - 1e-7, 1e-7), everywhere(0.5, 0.5)
    terms = {}
    for on in ("unlabelled", "all"):
        method = make(Answering(torch.cat([unsure, sure])), on=on, unsupervised_weight=1.0)
        terms[on] = method(batch, STEPS).terms["entropy"].item()
    assert terms == pytest.approx({"unlabelled": 0.0, "all": 0.5}, abs=1e-4)
