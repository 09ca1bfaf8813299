import math
from dataclasses import replace

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.losses.consistency import prediction_distance
from tracoco.methods import build_method
from tracoco.methods.method import RunFacts
from tracoco.methods.ss_net import SSNet
from tracoco.settings import MethodChoice

PAST_THE_RAMP = 1000


class Contrast(nn.Module):
    """Two classes; the logit of the second is the crop times a weight for each voxel."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.calls: list[Tensor] = []

    def forward(self, crops: Tensor) -> Tensor:
        self.calls.append(crops.detach())
        moved = crops[:, :1] * self.weight
        return torch.cat([torch.zeros_like(moved), moved], dim=1)


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> SSNet:
    method = make_method("ss-net", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, SSNet)
    return method


def moved_crops(method: SSNet, crops: Tensor, valid: Tensor) -> tuple[Tensor, Contrast]:
    """What the network is shown at last, beside the probe before it."""
    network = method.network
    assert isinstance(network, Contrast)
    prediction = torch.full((len(crops), 2, *crops.shape[2:]), 0.5)
    prediction[:, 0], prediction[:, 1] = 0.9, 0.1
    method.smoothness(crops, prediction, valid)
    return network.calls[-1], network


def test_the_change_goes_along_the_gradient_and_is_as_long_as_the_radius() -> None:
    method = make(radius=0.05, probe=1e-4)
    torch.manual_seed(0)
    weight = torch.randn(4, 4, 4)
    method.network = Contrast(weight)  # type: ignore[assignment]  # a stand-in
    crops, valid = torch.zeros(1, 1, 4, 4, 4), torch.ones(1, 4, 4, 4, dtype=torch.bool)
    moved, network = moved_crops(method, crops, valid)
    # At 0 the distance from (0.9, 0.1) grows with the second logit, in each voxel by its weight.
    expected = 0.05 * 8 * weight / weight.norm()
    torch.testing.assert_close(moved[0, 0], expected, rtol=1e-2, atol=1e-4)
    assert moved.norm().item() == pytest.approx(0.05 * 8, rel=1e-4)
    probe = network.calls[0]
    assert probe.norm().item() == pytest.approx(1e-4 * 8, rel=1e-4)
    assert network.weight.grad is None


def test_each_crop_has_the_radius_and_padding_stays_as_it_is() -> None:
    method = make(radius=0.1)
    torch.manual_seed(0)
    method.network = Contrast(torch.randn(4, 4, 4))  # type: ignore[assignment]  # a stand-in
    crops, valid = torch.rand(2, 1, 4, 4, 4), torch.ones(2, 4, 4, 4, dtype=torch.bool)
    valid[1, :2] = False
    change = moved_crops(method, crops, valid)[0] - crops
    assert change[0].norm().item() == pytest.approx(0.1 * 64**0.5, rel=1e-4)
    assert change[1].norm().item() == pytest.approx(0.1 * 32**0.5, rel=1e-4)
    assert not change[1, :, :2].any()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_releases_values_are_the_defaults_and_count_in_the_intensity_range(
    dimensions: int,
) -> None:
    facts = RunFacts(2, 1, dimensions, 30, 1, unlabelled_batch=2, intensity_range=2.0)
    plain = make(dimensions)
    method = SSNet(plain.config, lambda: plain.network, facts)
    size = {2: 256 * 256, 3: 112 * 112 * 80}[dimensions]
    # 6 in [0, 1]; 10 in standard deviations, of which five are the range.
    length = {2: 6.0, 3: 10.0 / 5}[dimensions]
    assert method.radius * size**0.5 == pytest.approx(2 * length, rel=0.01)
    assert method.probe / method.radius == pytest.approx({2: 10 / 6, 3: 1.0}[dimensions])
    assert method.largest_weight == {2: 0.1, 3: 1.0}[dimensions]
    assert method.rampup_steps == {2: 30, 3: 12}[dimensions]


def test_smoothness_and_separation_rise_with_one_ramp() -> None:
    found = {}
    for step in (0, 6, 12, PAST_THE_RAMP):
        method = make()
        torch.manual_seed(3)
        found[step] = method(make_batch(), step).terms
    for step, ramp in [(0, math.exp(-5)), (6, math.exp(-1.25)), (PAST_THE_RAMP, 1.0)]:
        for term in ("smoothness", "separation"):
            expected = ramp * found[12][term].item()
            assert found[step][term].item() == pytest.approx(expected, rel=1e-4)
    assert found[0]["supervised"].item() == found[12]["supervised"].item()


def test_weights_are_settings() -> None:
    terms = []
    for weight, separation_weight in [(1.0, 0.1), (0.5, 0.4)]:
        method = make(
            rampup_steps=1, unsupervised_weight=weight, separation_weight=separation_weight
        )
        torch.manual_seed(3)
        terms.append(method(make_batch(), 1).terms)
    assert terms[1]["smoothness"].item() == pytest.approx(0.5 * terms[0]["smoothness"].item())
    assert terms[1]["separation"].item() == pytest.approx(2 * terms[0]["separation"].item())


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_change_raises_the_distance_and_no_gradient_reaches_the_answer(
    dimensions: int, classes: int
) -> None:
    method = make(dimensions, classes, radius=0.05).eval()
    batch = make_batch(dimensions, classes)
    crops, valid = batch.first.values, batch.first.valid
    prediction = method.network(crops).softmax(dim=1)
    distance, _, moved = method.smoothness(crops, prediction, valid)
    random = method.network(crops + 0.05 * torch.randn_like(crops)).softmax(dim=1)
    assert distance > prediction_distance(random, prediction, valid)
    assert distance > prediction_distance(prediction, prediction, valid)
    assert not moved.requires_grad
    (distance - prediction_distance(moved, prediction, valid)).backward()
    assert any(p.grad is not None and p.grad.any() for p in method.network.parameters())


def test_padding_does_not_count() -> None:
    method = make()
    method.network = Contrast(torch.ones(16, 16, 16))  # type: ignore[assignment]  # a stand-in
    batch = make_batch()
    valid = batch.first.valid.clone()
    valid[:, :8] = False
    found = []
    for offset in (0.0, 5.0):
        crops = batch.first.values.clone()
        crops[:, :, :8] += offset
        prediction = method.network(crops).detach().softmax(dim=1)
        torch.manual_seed(0)
        found.append(method.smoothness(crops, prediction, valid).loss.item())
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_only_the_training_pass_moves_running_statistics() -> None:
    method = make()
    norm = nn.BatchNorm3d(1)
    calls = []
    norm.register_forward_pre_hook(lambda layer, _: calls.append(layer.track_running_stats))
    method.network.encoder.stages[0] = nn.Sequential(norm, method.network.encoder.stages[0])
    method(make_batch(), 0)
    assert calls == [True, False, False]
    assert norm.num_batches_tracked == 1


def test_a_resumed_run_has_its_prototypes() -> None:
    method, other = make(), make()
    method(make_batch(), 0)
    assert method.separation.held.any()
    other.load_state_dict(method.state_dict())
    batch = make_batch(seed=1)
    without = replace(batch, labels=torch.zeros_like(batch.labels))
    found = []
    for each in (method, other, make()):
        torch.manual_seed(5)
        found.append(each(without, PAST_THE_RAMP).terms["separation"].item())
    assert found[0] == found[1] != found[2]


def test_heads_are_no_part_of_what_predicts() -> None:
    method = make()
    assert method.inference_network() is method.network
    assert method.trained_networks() == [method.network]


def test_health_compares_the_unlabelled_answers_before_and_after() -> None:
    method = make()
    batch = make_batch()
    output = method(batch, 0)
    prediction, moved = output.pseudo_labels
    assert len(prediction) == len(moved) == 2
    prediction[:, 0], prediction[:, 1] = 0.75, 0.25
    moved[:, 0], moved[:, 1] = 0.25, 0.75
    assert measured(method.health(output, batch)) == pytest.approx(
        {"class/0": 1.0, "class/1": 0.0, "agreement": 0.0, "distance": 0.5 * 4096}
    )


def test_a_network_without_features_is_a_clear_error() -> None:
    facts = RunFacts(2, 1, 3, total_steps=30, steps_per_epoch=1, unlabelled_batch=2)
    for name in ("ss-net", "cross-ald"):
        with pytest.raises(UserError, match=f"'{name}' needs the feature maps"):
            build_method(MethodChoice(name=name), lambda: nn.Conv3d(1, 2, 1), facts)
