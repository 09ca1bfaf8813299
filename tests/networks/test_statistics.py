"""Statistics of BatchNorm that are taken of labelled and of unlabelled crops separately."""

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.methods.parts.co_training import CoTraining
from tracoco.networks.light_unet import LightUNet3D
from tracoco.networks.statistics import (
    SplitBatchNorm2d,
    SplitBatchNorm3d,
    frozen_statistics,
    mixes_kinds,
    split_statistics,
)


def maps(dimensions: int = 3) -> Tensor:
    """Two labelled crops about 1 and three unlabelled ones about 10, two channels."""
    random = torch.Generator().manual_seed(0)
    found = torch.randn(5, 2, *(4,) * dimensions, generator=random)
    found[:2] += 1
    found[2:] += 10
    return found


@pytest.mark.parametrize(
    ("split", "plain", "dimensions"),
    [(SplitBatchNorm2d, nn.BatchNorm2d, 2), (SplitBatchNorm3d, nn.BatchNorm3d, 3)],
)
def test_each_kind_of_crops_has_statistics_of_its_own(
    split: type[nn.Module], plain: type[nn.Module], dimensions: int
) -> None:
    norm, alone = split(2), plain(2)
    split_statistics(norm, 2, 3)
    crops = maps(dimensions)
    expected = torch.cat([alone(crops[:2]), alone(crops[2:])])
    torch.testing.assert_close(norm(crops), expected)
    # Means of about 1 and then 10, each with a share of 0.1: 0.1 * 1, then 0.9 * 0.1 + 0.1 * 10.
    torch.testing.assert_close(norm.running_mean, alone.running_mean)
    assert norm.get_buffer("running_mean").mean() == pytest.approx(1.09, abs=0.1)


def test_a_loss_of_labelled_crops_has_no_gradient_at_unlabelled_ones() -> None:
    # With joint statistics it has one, and networks used it against the unlabelled crops.
    gradients = {}
    for parts in ((2, 3), (0, 0)):
        crops, norm = maps().requires_grad_(), SplitBatchNorm3d(2)
        split_statistics(norm, *parts)
        norm(crops)[:2].square().mul(
            torch.arange(2 * 2 * 64).reshape(2, 2, 4, 4, 4)
        ).sum().backward()
        assert crops.grad is not None
        gradients[parts] = float(crops.grad[2:].abs().max())
    assert gradients[2, 3] == 0
    assert gradients[0, 0] > 0.01


def test_other_batches_and_test_time_are_as_in_batchnorm() -> None:
    norm, plain = SplitBatchNorm3d(2), nn.BatchNorm3d(2)
    split_statistics(norm, 2, 3)
    for crops in (maps()[:4], maps()[2:]):
        torch.testing.assert_close(norm(crops), plain(crops))
    with frozen_statistics(norm):
        before = norm.get_buffer("running_mean").clone()
        norm(maps())
    assert torch.equal(norm.get_buffer("running_mean"), before)
    torch.testing.assert_close(norm.eval()(maps()), plain.eval()(maps()))


def test_a_labelled_crop_of_the_light_unet_does_not_depend_on_unlabelled_ones() -> None:
    network = LightUNet3D(1, 2, 4)
    network.encoder.stages[-1][-1].p = 0.0  # type: ignore[index]  # dropout
    assert mixes_kinds(network)
    split_statistics(network, 2, 2)
    assert not mixes_kinds(network)
    crops = torch.rand(4, 1, 16, 16, 16)
    others = torch.cat([crops[:2], 5 * crops[2:]])
    torch.testing.assert_close(network(crops)[:2], network(others)[:2])
    split_statistics(network, 0, 0)
    assert (network(crops)[:2] - network(others)[:2]).abs().max() > 0.01


@pytest.mark.parametrize("form", ["averaged", "batch", "clean"])
def test_cps_shows_unlabelled_crops_to_the_running_statistics_once(form: str) -> None:
    method = make_method("cps", 3, 2, 30, 2, pseudo_labels=form, noise=0.0)
    assert isinstance(method, CoTraining)
    network = nn.Sequential(SplitBatchNorm3d(1), nn.Conv3d(1, 2, 1))
    method.networks[0] = network
    split_statistics(method, 2, 2)
    batch = make_batch()
    batch.first.values[:2], batch.first.values[2:] = 1.0, 10.0
    method(batch, 5)
    # Labelled crops, then mixed ones: 0.1 * 1, then 0.9 * 0.1 + 0.1 * 10.
    assert network.get_buffer("0.running_mean").item() == pytest.approx(1.09)
    assert network.get_buffer("0.num_batches_tracked").item() == 2
