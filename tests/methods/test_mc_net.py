import math

import pytest
import torch
from samples import make_batch, make_method
from told import Told
from torch import nn

from tracoco.errors import UserError
from tracoco.methods.decoders import MeanOfDecoders
from tracoco.methods.mc_net import MCNet, MCNetPlus

PAST_THE_RAMP = 1000
UNSURE = 0.146654
"""(S(0.6) - 0.6)^2, with S(0.6) = 0.6^10 / (0.6^10 + 0.4^10) = 0.98295."""


def make(name: str = "mc-net", dimensions: int = 3, **settings: object) -> MCNet:
    method = make_method(name, dimensions, 2, 30, 2, **settings)
    assert isinstance(method, MCNet)
    return method


def told(*probabilities: tuple[float, ...], **settings: object) -> MCNet:
    method = make(**settings)  # type: ignore[arg-type]  # any setting
    method.decoders = Told(*probabilities)  # type: ignore[assignment]  # a stand-in
    return method


@pytest.mark.parametrize("decoders", [2, 3])
def test_the_consistency_by_hand_and_its_ramp_in_3d(decoders: int) -> None:
    method = told(*[(0.6, 0.4)] * decoders)
    pairs = decoders * (decoders - 1)
    # Two fifths of 30 steps.
    for step, ramp in [(0, math.exp(-5)), (6, math.exp(-1.25)), (12, 1.0), (PAST_THE_RAMP, 1.0)]:
        consistency = method(make_batch(), step)["consistency"].item()
        assert consistency == pytest.approx(2 * ramp * pairs * UNSURE, rel=1e-4)


def test_in_2d_the_weight_is_a_tenth_of_that_and_rises_through_the_run() -> None:
    method = told((0.6, 0.4), (0.6, 0.4), dimensions=2)
    for step, ramp in [(15, math.exp(-1.25)), (30, 1.0)]:
        consistency = method(make_batch(2), step)["consistency"].item()
        assert consistency == pytest.approx(0.2 * ramp * 2 * UNSURE, rel=1e-4)


def test_weight_ramp_and_temperature_are_settings() -> None:
    method = told((0.6, 0.4), (0.6, 0.4), unsupervised_weight=3.0, rampup_steps=10, temperature=0.5)
    expected = 3 * 2 * (0.36 / 0.52 - 0.6) ** 2
    assert method(make_batch(), 10)["consistency"].item() == pytest.approx(expected, rel=1e-4)


def test_the_supervised_losses_of_the_decoders_are_added() -> None:
    batch = make_batch()
    alone = told((0.6, 0.4), (0.6, 0.4))(batch, 0)["supervised"].item()
    assert told(*[(0.6, 0.4)] * 3)(batch, 0)["supervised"].item() == pytest.approx(1.5 * alone)


def test_labelled_crops_must_agree_too_but_padding_need_not() -> None:
    method = told((0.6, 0.4), (0.6, 0.4))
    batch = make_batch()
    batch.first.inside[2:] = False
    assert method(batch, 12)["consistency"].item() == pytest.approx(2 * 2 * UNSURE, rel=1e-4)
    batch.first.inside[:] = False
    assert method(batch, 12)["consistency"].item() == 0.0


@pytest.mark.parametrize("detached", [False, True])
def test_the_targets_are_detached_if_asked(detached: bool) -> None:  # noqa: FBT001 - a parameter
    method = told((0.5, 0.5), (0.9, 0.1), detached=detached)
    method(make_batch(), 12)["consistency"].backward()
    gradient = method.decoders.logits[0].grad  # type: ignore[index]  # of the stand-in
    # The slope of the sharpening is ten times steeper than what is left of it.
    assert gradient[0].item() == pytest.approx(-0.5 if detached else -4.5, abs=1e-2)  # type: ignore[index]  # it has one


def test_the_plus_has_three_decoders_and_predicts_with_the_first() -> None:
    method = make("mc-net-plus").eval()
    assert isinstance(method, MCNetPlus)
    assert len(method.decoders.branches) == 3
    assert method.inference_network() is method.decoders.first
    crops = torch.rand(1, 1, 16, 16, 16)
    with torch.no_grad():
        expected = method.decoders(crops)[0].softmax(dim=1)
        method.decoders.others = nn.ModuleList()
        torch.testing.assert_close(method.predict(crops), expected)


def test_the_mean_of_the_decoders_predicts_or_the_first() -> None:
    assert isinstance(make().inference_network(), MeanOfDecoders)
    method = make(predict_with="first")
    assert method.inference_network() is method.decoders.first


@pytest.mark.parametrize(("dimensions", "transposed"), [(2, [0, 3]), (3, [3, 0])])
def test_the_ways_up_are_the_releases(dimensions: int, transposed: list[int]) -> None:
    kinds = (nn.ConvTranspose2d, nn.ConvTranspose3d)
    found = [
        sum(isinstance(part, kinds) for part in branch.decoder.modules())
        for branch in make(dimensions=dimensions).decoders.branches
    ]
    assert found == transposed


def test_the_ways_up_are_a_setting() -> None:
    assert len(make(decoders=("linear", "linear", "linear")).decoders.branches) == 3
    with pytest.raises(UserError, match="decoders"):
        make(decoders=("linear",))


def test_health_compares_the_first_two_decoders_on_unlabelled_crops() -> None:
    method = told((0.25, 0.75), (0.75, 0.25), (0.5, 0.5))
    batch = make_batch()
    assert method.health(batch) == {}
    batch.first.inside[3, :8] = False
    method(batch, 0)
    assert method.health(batch) == pytest.approx(
        {"share/0": 0.0, "share/1": 1.0, "agreement": 0.0, "distance": 0.5 * (4096 + 2048) / 2}
    )
