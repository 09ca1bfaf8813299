import math
from functools import partial

import pytest
import torch
from fixed_decoders import Told
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.losses.supervised import supervised_loss
from tracoco.methods.urpc import URPC, Pyramid, drop_salient, multiply_noise
from tracoco.networks import build_network
from tracoco.networks.network import with_features

PAST_THE_RAMP = 1000
RECTIFIED = 0.15797
"""Of two levels that say (0.9, 0.1) and (0.5, 0.5)."""


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> URPC:
    method = make_method("urpc", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, URPC)
    return method


def told(*probabilities: tuple[float, ...], **settings: object) -> URPC:
    method = make(**settings)  # type: ignore[arg-type]  # any setting
    method.pyramid = Told(*probabilities)  # type: ignore[assignment]  # a stand-in
    return method


def pyramid(name: str, dimensions: int) -> Pyramid:
    torch.manual_seed(0)
    network = build_network(
        name,
        channels=1,
        classes=4,
        dimensions=dimensions,
        filters=4,
        normalisation="instance",
    )
    return Pyramid(with_features(network, "urpc"), 4, perturb=True)


def test_the_consistency_by_hand_and_its_ramp() -> None:
    method = told((0.9, 0.1), (0.5, 0.5))
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (PAST_THE_RAMP, 1.0)]:
        consistency = method(make_batch(), step).terms["consistency"].item()
        assert consistency == pytest.approx(0.2 * ramp * RECTIFIED, rel=1e-4)


def test_weight_and_ramp_are_settings() -> None:
    method = told((0.9, 0.1), (0.5, 0.5), unsupervised_weight=2.0, rampup_steps=10)
    assert method(make_batch(), 10).terms["consistency"].item() == pytest.approx(
        2 * RECTIFIED, rel=1e-4
    )


def test_only_unlabelled_crops_are_compared_and_no_padding() -> None:
    method = told((0.9, 0.1), (0.5, 0.5))
    batch = make_batch()
    batch.first.valid[3, :8] = False
    assert method(batch, 30).terms["consistency"].item() == pytest.approx(0.2 * RECTIFIED, rel=1e-4)
    batch.first.valid[2:] = False
    assert method(batch, 30).terms["consistency"].item() == 0.0


def test_levels_may_differ_on_labelled_crops() -> None:
    class Differing(nn.Module):
        def forward(self, crops: Tensor) -> list[Tensor]:
            first, second = Told((0.9, 0.1), (0.5, 0.5))(crops)
            return [first, torch.cat([second[:2], first[2:]])]

    method = make()
    method.pyramid = Differing()  # type: ignore[assignment]  # a stand-in
    assert method(make_batch(), 30).terms["consistency"].item() == pytest.approx(0.0, abs=1e-8)


def test_the_supervised_loss_is_the_mean_of_the_levels() -> None:
    method, batch = told((0.9, 0.1), (0.5, 0.5)), make_batch()
    valid = batch.first.valid[:2]
    valid[:, :8] = False
    alone = [
        supervised_loss(logits[:2], batch.labels, valid).item()
        for logits in method.pyramid(batch.first.values)
    ]
    assert method(batch, 0).terms["supervised"].item() == pytest.approx(sum(alone) / 2)


@pytest.mark.parametrize(
    ("name", "dimensions", "levels"),
    [("light-unet", 2, 3), ("light-unet", 3, 3), ("unet", 2, 4), ("vnet", 3, 4)],
)
def test_every_level_answers_at_the_size_of_the_crops(
    name: str, dimensions: int, levels: int
) -> None:
    crops = torch.rand(2, 1, *[32] * dimensions)
    with torch.no_grad():
        predictions = pyramid(name, dimensions)(crops)
    assert [tuple(each.shape) for each in predictions] == [(2, 4, *[32] * dimensions)] * levels


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_network_predicts_by_its_own_head_as_in_training(dimensions: int) -> None:
    method = make(dimensions, classes=4).eval()
    crops = torch.rand(1, 1, *[16] * dimensions)
    with torch.no_grad():
        expected = method.pyramid(crops)[-1].softmax(dim=1)
        torch.testing.assert_close(method.predict(crops), expected)
    assert method.inference_network() is method.pyramid.network


@pytest.mark.parametrize("dimensions", [2, 3])
def test_perturbations_are_of_training_and_of_coarse_levels_alone(dimensions: int) -> None:
    module = pyramid("light-unet", dimensions)
    crops = torch.rand(2, 1, *[16] * dimensions)
    for part in module.modules():  # the network's own dropout, which is none of ours
        if isinstance(part, nn.Dropout2d | nn.Dropout3d):
            part.p = 0.0
    with torch.no_grad():
        trained, again = module(crops), module(crops)
        module.perturb = False
        plain = module(crops)
        module.perturb = True
        tested = module.eval()(crops)
    for level, same in [(0, False), (1, False), (2, True)]:
        assert torch.equal(trained[level], again[level]) == same
        torch.testing.assert_close(tested[level], plain[level])
    torch.testing.assert_close(trained[2], tested[2])


def test_the_strongest_places_are_dropped_in_each_crop() -> None:
    # Means over two channels: (1, 5, 10) and (100, 20, 60); above 0.9 of the largest is the
    # largest alone, above 0.7 too.
    maps = torch.tensor([[[0.0, 14.0, 8.0], [2.0, -4.0, 12.0]], [[90.0, 10, 50], [110.0, 30, 70]]])
    kept = torch.tensor([[True, True, False], [False, True, True]]).unsqueeze(1)
    assert torch.equal(drop_salient(maps), maps * kept)


def test_the_noise_of_all_crops_is_one() -> None:
    torch.manual_seed(0)
    noisy = multiply_noise(torch.full((2, 8, 32, 32), 10.0))
    assert torch.equal(noisy[0], noisy[1])
    assert 7.0 <= noisy.min() < 7.01
    assert 12.99 < noisy.max() <= 13.0


def test_one_level_is_refused() -> None:
    build = partial(build_network, "light-unet", channels=1, classes=2, dimensions=2, filters=4)
    network = build(strides=((2, 2),))
    with pytest.raises(UserError, match=r"a single level; set network\.strides"):
        Pyramid(with_features(network, "urpc"), 2, perturb=True)


def test_health_compares_the_finest_level_with_the_mean() -> None:
    method = told((0.1, 0.9), (0.1, 0.9), (0.6, 0.4))
    batch = make_batch()
    batch.first.valid[3, :8] = False
    output = method(batch, 0)
    # The mean is (0.8, 2.2) / 3, and 0.6 - 0.8 / 3 = 1/3 apart.
    assert measured(method.health(output, batch)) == pytest.approx(
        {"class/0": 0.0, "class/1": 1.0, "agreement": 0.0, "distance": (4096 + 2048) / 3 / 2}
    )
