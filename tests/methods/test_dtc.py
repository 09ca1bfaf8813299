import math
from dataclasses import replace

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor

from tracoco.methods.dtc import DTC, dual_task_loss
from tracoco.methods.method import StepOutput
from tracoco.methods.parts.two_heads import signed_distances

CERTAIN = 100.0


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> DTC:
    method = make_method("dtc", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, DTC)
    return method


def predictions(probability: float, distance: float, count: int = 1) -> tuple[Tensor, Tensor]:
    """Logits and distances of crops of 4 voxels that have the same everywhere."""
    odds = math.log(probability / (1 - probability)) if 0 < probability < 1 else None
    score = CERTAIN * (2 * probability - 1) if odds is None else odds
    logits = torch.zeros(count, 2, 2, 2)
    logits[:, 1] = score
    return logits, torch.full((count, 1, 2, 2), distance)


def loss(logits: Tensor, maps: Tensor, valid: Tensor | None = None) -> float:
    counted = torch.ones(len(maps), *maps.shape[2:], dtype=torch.bool)
    return dual_task_loss(
        logits, maps, counted if valid is None else valid, steepness=1500.0
    ).item()


@pytest.mark.parametrize(
    ("distance", "enclosed"), [(0.0, 0.5), (-0.001, 0.817574), (0.001, 0.182426), (0.01, 3.059e-7)]
)
def test_distances_become_a_mask_by_a_steep_sigmoid(distance: float, enclosed: float) -> None:
    assert loss(*predictions(0.0, distance)) == pytest.approx(enclosed**2, rel=1e-4)


@pytest.mark.parametrize(
    ("probability", "distance", "expected"),
    [(1.0, -1.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.25), (1.0, 1.0, 1.0), (0.25, -1.0, 0.5625)],
)
def test_masks_of_both_heads_by_hand(probability: float, distance: float, expected: float) -> None:
    assert loss(*predictions(probability, distance)) == pytest.approx(expected, abs=1e-6)


def test_with_more_classes_it_is_the_mean_of_the_foreground() -> None:
    logits = torch.zeros(1, 4, 2, 2)  # a quarter each
    maps = torch.tensor([-1.0, 1.0, 0.0]).reshape(1, 3, 1, 1).expand(1, 3, 2, 2)
    assert loss(logits, maps) == pytest.approx((0.75**2 + 0.25**2 + 0.25**2) / 3)


def test_padding_does_not_count() -> None:
    (good, right), (bad, wrong) = predictions(1.0, -1.0), predictions(1.0, 1.0)
    logits, maps = torch.cat([good, bad], dim=3), torch.cat([right, wrong], dim=3)
    valid = torch.tensor([[[True, True, False, False]] * 2])
    assert loss(logits, maps) == pytest.approx(0.5)
    assert loss(logits, maps, valid) == pytest.approx(0.0)


def test_both_heads_are_pulled_to_each_other() -> None:
    logits, maps = (prediction.requires_grad_() for prediction in predictions(0.9, 0.001))
    valid = torch.ones(1, 2, 2, dtype=torch.bool)
    dual_task_loss(logits, maps, valid, steepness=1500.0).backward()
    assert logits.grad is not None
    assert maps.grad is not None
    assert (logits.grad[:, 1] > 0).all()  # less of the mask
    assert (maps.grad > 0).all()  # further into it


def test_the_agreement_is_asked_of_labelled_and_unlabelled_crops_and_ramps_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method, batch = make(), make_batch(2, size=(2, 2))
    logits, maps = predictions(1.0, 0.0, 4)
    maps[2:] = -1.0
    monkeypatch.setattr(method, "logits_and_distances", lambda _: (logits, maps))
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (99, 1.0)]:
        assert method(batch, step).terms["dual_task"].item() == pytest.approx(ramp * 0.125)


def test_no_term_counts_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    method, batch = make(), make_batch(2, size=(2, 2))
    batch.first.valid[:, 0] = False
    batch.labels[:] = 1
    logits, maps = predictions(1.0, -1.0, 4)
    logits[:, :, 0] = logits[:, :, 0].flip(1)
    maps[:, :, 0] = 1.0 - maps[:, :, 0]
    monkeypatch.setattr(method, "logits_and_distances", lambda _: (logits, maps))
    terms = method(batch, 30).terms
    assert [terms[name].item() for name in ("signed_distance", "dual_task")] == [0.0, 0.0]
    assert terms["supervised"].item() == pytest.approx(0.0, abs=1e-5)


def test_weights_steepness_and_ramp_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make(unsupervised_weight=2.0, rampup_steps=10, steepness=1.0, distance_weight=0.0)
    given = predictions(1.0, math.log(3), 4)
    monkeypatch.setattr(method, "logits_and_distances", lambda _: given)
    terms = method(make_batch(2, size=(2, 2)), 10).terms
    assert terms["dual_task"].item() == pytest.approx(2 * 0.75**2)
    assert terms["signed_distance"].item() == 0.0


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_distances_of_the_labelled_crops_are_learnt(
    dimensions: int, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, batch = make(dimensions, classes), make_batch(dimensions, classes, size=(8, 8, 8))
    batch.first.valid[0, :3] = False
    valid = batch.first.valid[:2]
    maps = torch.zeros(4, classes - 1, *(8,) * dimensions)
    maps[:2] = signed_distances(batch.labels, valid, classes)
    maps[2:] = 9.0  # of unlabelled crops nothing is known
    maps[0, :, :3] = 9.0
    logits = torch.zeros(4, classes, *(8,) * dimensions)
    monkeypatch.setattr(method, "logits_and_distances", lambda _: (logits, maps))
    assert method(batch, 0).terms["signed_distance"].item() == 0.0
    maps[:2] += 0.5
    assert method(batch, 0).terms["signed_distance"].item() == pytest.approx(0.3 * 0.25)


def test_labels_teach_the_mask_head_as_in_every_method() -> None:
    method, batch = make().eval(), make_batch(2)
    plain = make_method("supervised", 2, noise=0.0).eval()
    plain.get_submodule("network").load_state_dict(method.network.state_dict())
    assert method(batch, 0).terms["supervised"].item() == plain(batch, 0).terms["supervised"].item()


def test_only_the_distance_head_has_no_part_in_a_prediction() -> None:
    method = make()
    assert method.inference_network() is method.network
    network, head = (group["params"] for group in method.parameter_groups())
    assert len(network) == len(list(method.network.parameters()))
    assert len(head) == 2


def test_health_tells_where_both_heads_put_every_class_alike() -> None:
    method, batch = make(classes=3), make_batch(2, 3, size=(2, 2))
    batch.first.valid[3, 0] = False
    labels = torch.tensor([[[0, 1], [2, 2]], [[0, 0], [1, 1]]])
    logits = torch.nn.functional.one_hot(labels, 3).movedim(-1, 1).float()
    maps = 0.5 - logits[:, 1:]
    maps[0, 0, 0, 0] = -0.1  # one of the six voxels inside is foreground to this head alone
    maps[1, 0, 0, 0] = -0.1  # padding
    before = torch.zeros(2, 3, 2, 2), torch.zeros(2, 2, 2, 2)
    output = StepOutput({}, (torch.cat([before[0], logits]), torch.cat([before[1], maps])))
    assert measured(method.health(output, batch)) == pytest.approx(
        {"class/0": 1 / 6, "class/1": 3 / 6, "class/2": 2 / 6, "head_agreement": 5 / 6}
    )


def test_a_step_looks_at_first_crops_once() -> None:
    method, batch = make(), make_batch(2)
    before = method(batch, 0).pseudo_labels[0]
    assert len(before) == len(batch.cases)
    other = replace(batch, first=replace(batch.first, values=batch.first.values + 1))
    assert not torch.equal(before, method(other, 0).pseudo_labels[0])
