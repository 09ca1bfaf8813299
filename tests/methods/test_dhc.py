import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fixed_predictions import Answering, by_halves, everywhere
from samples import make_batch, make_method, make_project
from torch import nn

from tracoco.methods.dhc import DHC
from tracoco.presets import load_config
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment

STEPS = 30


def make(dimensions: int = 3, classes: int = 2, **settings: Any) -> DHC:
    method = make_method("dhc", dimensions, classes, STEPS, **settings)
    assert isinstance(method, DHC)
    return method


def answering(first: Answering, second: Answering, classes: int = 2, **settings: Any) -> DHC:
    method = make(classes=classes, **settings)
    method.networks = nn.ModuleList([first, second])
    return method


def test_the_peers_cross_entropy_by_hand_and_its_ramp() -> None:
    # One class each, so that weights cancel: -log .1 of the first, -log .2 of the second.
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (1000, 1.0)]:
        method = answering(Answering(everywhere(0.9, 0.1)), Answering(everywhere(0.2, 0.8)))
        batch = make_batch()
        batch.labels[:] = 0  # so that the second network's weights do not begin with a 0 for 1
        term = method(batch, step).terms["ce"].item()
        assert term == pytest.approx(-0.1 * ramp * (math.log(0.1) + math.log(0.2)), rel=1e-4)


def test_all_crops_are_taught_by_peers() -> None:
    method = answering(Answering(everywhere(0.9, 0.1)), Answering(everywhere(0.2, 0.8)))
    batch = make_batch()
    batch.labels[:] = 0
    batch.first.valid[2:] = False
    assert method(batch, STEPS).terms["ce"].item() > 0.1


def test_each_learns_from_the_others_labels_alone() -> None:
    first, second = Answering(everywhere(0.9, 0.1)), Answering(everywhere(0.2, 0.8))
    method = answering(first, second)
    batch = make_batch()
    batch.labels[:] = 0
    method(batch, STEPS).terms["ce"].backward()
    one, two = first.logits[0].grad, second.logits[0].grad
    assert one is not None
    assert two is not None
    assert one[0, 1].item() < 0 < one[0, 0].item()
    assert two[0, 0].item() < 0 < two[0, 1].item()


def test_the_second_network_weighs_rare_classes_the_first_hard_ones() -> None:
    # The second answers class 1 in a quarter of the voxels and class 2 in another: ln 2 each.
    quarter = by_halves(everywhere(0.1, 0.8, 0.1), everywhere(0.1, 0.1, 0.8), length=8)
    second = by_halves(everywhere(0.8, 0.1, 0.1), everywhere(0.8, 0.1, 0.1), length=8)
    method = answering(
        Answering(everywhere(0.8, 0.1, 0.1)),
        Answering(torch.cat([second, quarter], dim=-1)),
        classes=3,
        distribution_decay=0.0,
    )
    method(make_batch(classes=3), 0)
    assert method.distribution.weights.tolist() == pytest.approx([0.0, 3.0, 3.0], abs=1e-5)
    assert method.difficulty.dice[0] > 0.4
    assert method.difficulty.dice[1:].tolist() == pytest.approx([1e-8, 1e-8])


def test_classes_are_counted_among_the_unlabelled_crops_alone() -> None:
    # The labelled crops are answered with class 2, the others with class 0.
    prediction = torch.cat([everywhere(0.1, 0.1, 0.8)] * 2 + [everywhere(0.8, 0.1, 0.1)] * 2)
    method = answering(
        Answering(everywhere(0.8, 0.1, 0.1)),
        Answering(prediction),
        classes=3,
        distribution_decay=0.0,
    )
    method(make_batch(classes=3), 0)
    assert method.distribution.weights.tolist() == pytest.approx([0.0, 3.0, 3.0], abs=1e-5)


def test_the_supervised_loss_is_weighted() -> None:
    # Three quarters are background. The second network gives background no weight: its
    # cross-entropy is that of the foreground, -log .4; the first has equal weights but for 1e-8.
    def supervised(foreground: float) -> float:
        prediction = Answering(everywhere(1 - foreground, foreground))
        method = answering(Answering(everywhere(0.5, 0.5)), prediction, distribution_decay=0.999999)
        batch = make_batch()
        batch.labels[:] = 0
        batch.labels[..., :4] = 1
        loss: float = method(batch, 0).terms["supervised"].item()
        return loss

    def second_network(foreground: float) -> float:
        voxels = 2 * 16**3
        dice = 1 - (0.5 * foreground * voxels + 1) / ((foreground + 0.25) * voxels + 1)
        return 2 * dice - math.log(foreground)

    difference = supervised(0.4) - supervised(0.6)
    assert difference == pytest.approx(second_network(0.4) - second_network(0.6), rel=1e-3)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("classes", [2, 4])
def test_padding_does_not_count(dimensions: int, classes: int) -> None:
    outcomes = []
    for other in (False, True):
        method = make(dimensions, classes).eval()
        batch = make_batch(dimensions, classes)
        batch.first.valid[:, :4] = False
        if other:
            batch.labels[:, :4] = 0
        torch.manual_seed(0)
        terms = method(batch, STEPS).terms
        outcomes.append([term.item() for term in terms.values()])
    assert outcomes[0] == pytest.approx(outcomes[1], rel=1e-6)


def test_peers_teach_nothing_in_padding() -> None:
    # As by hand above in the first half; in the second the networks are less far apart.
    first = by_halves(everywhere(0.9, 0.1), everywhere(0.6, 0.4))
    method = answering(Answering(first), Answering(everywhere(0.2, 0.8)))
    batch = make_batch()
    batch.labels[:] = 0
    batch.first.valid[..., 8:] = False
    found = method(batch, STEPS).terms["ce"].item()
    assert found == pytest.approx(-0.1 * (math.log(0.1) + math.log(0.2)), rel=1e-4)


def test_weights_go_on_from_a_checkpoint() -> None:
    method, other = make(classes=4), make(classes=4)
    for seed in range(3):
        method(make_batch(classes=4, seed=seed), seed)
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    outcomes = []
    for each in (method, other):
        torch.manual_seed(0)
        outcomes.append([term.item() for term in each(make_batch(classes=4), STEPS).terms.values()])
    assert outcomes[0] == outcomes[1]
    assert bool(other.distribution.started)


def test_rarity_begins_at_the_labels_of_all_labelled_scans(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    experiment = Experiment.of(project, load_config("demo", ["method.name=dhc"]))
    method = experiment.method(Process(0, 1, torch.device("cpu")))
    assert isinstance(method, DHC)
    # With two classes the rarer one, here the balls, has all the weight.
    background, balls = experiment.class_voxels
    assert background > balls > 0
    assert method.distribution.weights.tolist() == [0.0, 2.0]
    assert bool(method.distribution.started)


def test_the_prediction_is_the_mean_of_logits_and_members_follow_it() -> None:
    crops = torch.rand(1, 1, 16, 16, 16)
    first, second = Answering(everywhere(0.8, 0.2)), Answering(everywhere(0.5, 0.5))
    method = answering(first, second)
    # Odds 4 and 1: their geometric mean is 2.
    assert method.predict(crops)[0, 0, 0, 0, 0].item() == pytest.approx(2 / 3)
    shown = [member[0, 0, 0, 0, 0].item() for member in method.predict_members(crops)]
    assert shown == pytest.approx([2 / 3, 0.8, 0.5])
    method = answering(first, second, predict_with="first")
    assert method.inference_network() is first
    shown = [member[0, 0, 0, 0, 0].item() for member in method.predict_members(crops)]
    assert shown == pytest.approx([0.8, 0.5])
