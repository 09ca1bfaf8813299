import math
from typing import Any

import pytest
import torch
from fixed_predictions import Answering, everywhere
from samples import make_batch, make_method
from torch import nn

from tracoco.errors import UserError
from tracoco.methods.cross_teaching import CrossTeaching
from tracoco.networks.light_unet import LightUNet
from tracoco.networks.transunet import TransUNet
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.runs.build import run_method

STEPS = 30
TINY = "method.second_options={hidden_size: 12, mlp_dim: 12, num_heads: 2}"


def make(
    first: Answering, second: Answering, dimensions: int = 3, classes: int = 2, **settings: Any
) -> CrossTeaching:
    method = make_method("cross-teaching", dimensions, classes, STEPS, **settings)
    assert isinstance(method, CrossTeaching)
    method.networks = nn.ModuleList([first, second])
    return method


def plan(*crop: int) -> Plan:
    return Plan(
        dimensions=3 if crop[0] > 1 else 2,
        channels=1,
        label_values=(0, 1),
        class_names=("background", "ball"),
        slice_axis=None if crop[0] > 1 else 2,
        spacing_mm=(1, 1, 1),
        crop=(crop[0], crop[1], crop[2]),
        strides=((2,) * (3 if crop[0] > 1 else 2),) * 2,
    )


def built(crop: Plan, *settings: str) -> CrossTeaching:
    common = ["method.name=cross-teaching", "network.filters=4", *settings]
    method = run_method(load_config(None, common), crop)
    assert isinstance(method, CrossTeaching)
    return method


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_peers_dice_by_hand_and_its_ramp(dimensions: int) -> None:
    # Labels 0 and 1. Of the label's class 2 * p / (p^2 + 1), of the other nothing is right.
    first, second = (
        Answering(everywhere(*prediction, dimensions=dimensions))
        for prediction in ((0.8, 0.2), (0.4, 0.6))
    )
    taught = sum((1 - 2 * p / (p**2 + 1) + 1) / 2 for p in (0.2, 0.4))
    method = make(first, second, dimensions)
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (1000, 1.0)]:
        term = method(make_batch(dimensions), step).terms["dice"].item()
        assert term == pytest.approx(0.2 * ramp * taught, rel=1e-4)


@pytest.mark.parametrize("classes", [2, 4])
def test_networks_that_are_sure_of_the_same_have_little_to_teach(classes: int) -> None:
    # Of the classes that are nowhere, the smallest probability counts; here it is none.
    prediction = everywhere(1.0, *[1e-30] * (classes - 1))
    method = make(Answering(prediction), Answering(prediction), classes=classes)
    assert method(make_batch(classes=classes), STEPS).terms["dice"].item() == pytest.approx(
        0, abs=1e-5
    )


def test_each_learns_from_the_others_labels_on_unlabelled_crops_alone() -> None:
    first, second = Answering(everywhere(0.8, 0.2)), Answering(everywhere(0.4, 0.6))
    method = make(first, second)
    batch = make_batch()
    method(batch, STEPS).terms["dice"].backward()
    one, two = first.logits[0].grad, second.logits[0].grad
    assert one is not None
    assert two is not None
    assert one[0, 1].item() < 0 < one[0, 0].item()
    assert two[0, 0].item() < 0 < two[0, 1].item()
    batch.first.valid[2:] = False
    assert method(batch, STEPS).terms["dice"].item() == 0.0


def test_the_run_has_its_own_network_and_a_second_one_by_name() -> None:
    method = built(plan(1, 32, 32), "method.second=transunet")
    assert isinstance(method.networks[0], LightUNet)
    assert isinstance(method.networks[1], TransUNet)
    assert method.inference_network() is method.networks[0]


def test_the_second_network_of_the_same_kind_starts_elsewhere() -> None:
    method = built(plan(16, 16, 16), "method.second=light-unet")
    first, second = method.networks
    assert isinstance(first, LightUNet)
    assert isinstance(second, LightUNet)
    assert first.strides == second.strides == ((2, 2, 2),) * 2  # those of the plan
    assert not torch.equal(*(next(network.parameters()) for network in method.networks))


@pytest.mark.parametrize("crop", [(1, 32, 32), (32, 16, 16)])
def test_by_default_it_is_a_transformer_in_2d_and_in_3d(crop: tuple[int, ...]) -> None:
    pytest.importorskip("monai")
    method = built(plan(*crop), TINY)
    assert type(method.networks[1]).__name__ == "UNETR"
    size = tuple(length for length in crop if length > 1)
    terms = method(make_batch(len(size), size=size), STEPS).terms
    torch.stack(list(terms.values())).sum().backward()
    assert all(weight.grad is not None for weight in method.networks[0].parameters())
    assert any(weight.grad is not None for weight in method.networks[1].parameters())


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("transunet", "method.second: network 'transunet' does not exist in 3D"),
        ("swin", "method.second: network 'swin' does not exist"),
        ("unet", r"method.second: crop \(24, 16, 16\) cannot be halved 4 times on axis 0"),
    ],
)
def test_a_second_network_that_does_not_fit_is_refused(second: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(plan(24, 16, 16), f"method.second={second}")


def test_a_crop_that_the_transformer_cannot_take_is_refused() -> None:
    pytest.importorskip("monai")
    with pytest.raises(UserError, match=r"method\.second: network 'monai:UNETR' cannot"):
        built(plan(24, 16, 16), TINY)
