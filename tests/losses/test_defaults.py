"""Losses in other people's training loops: no mask means all voxels, thresholds are the paper's."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tracoco as tc
from tracoco.geometry import overlap
from tracoco.losses import Overlap
from tracoco.methods.mc_net import MCNetConfig
from tracoco.methods.tracoco import TraCoCoConfig

SIZES = [(5, 4), (5, 4, 3)]
CASES = [(classes, size) for classes in (2, 4) for size in SIZES]

Masked = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
LOSSES: dict[str, Masked] = {
    "supervised": lambda own, _, label, valid: tc.losses.supervised_loss(own, label, valid),
    "dice": lambda own, _, label, valid: tc.losses.dice_loss(own, label, valid),
    "cross-entropy": lambda own, _, label, valid: tc.losses.cross_entropy(own, label, valid),
    "crc": lambda own, peer, _, valid: tc.losses.crc_loss(own, peer, valid),
    "mse": lambda own, peer, _, valid: tc.losses.mse_loss(own, peer, valid),
    "kl": lambda own, peer, _, valid: tc.losses.kl_loss(own, peer, valid),
    "ce": lambda own, peer, _, valid: tc.losses.ce_loss(own, peer, valid),
    "mutual": lambda own, peer, _, valid: tc.losses.mutual_loss([own, peer.log()], valid),
    "both networks": lambda own, peer, _, valid: tc.losses.semi_supervised_loss(
        (own, own.flip(1)), (peer, peer.flip(1)), valid
    ),
    "distance": lambda own, peer, _, valid: tc.losses.prediction_distance(
        own.softmax(dim=1), peer, valid
    ),
    "weighted": lambda own, peer, _, valid: tc.losses.weighted_mse(own, peer, peer[:, 0], valid),
    "divergence": lambda own, peer, _, valid: tc.losses.overlap_divergence(
        own.log_softmax(dim=1), peer.log(), meeting(own, valid)
    ),
    "entropy": lambda own, peer, _, valid: tc.losses.negative_entropy(
        own.log_softmax(dim=1), peer.log(), meeting(own, valid)
    ),
}


def meeting(crops: Tensor, valid: Tensor | None) -> Overlap:
    """Crops that are shifted by one voxel along each axis."""
    axes = crops.ndim - 2
    boxes = overlap((0,) * axes, (1,) * axes, tuple(crops.shape[2:]))
    return Overlap([boxes] * len(crops), valid)


def sample(classes: int, size: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, the peer's probabilities and labels of two crops."""
    random = torch.Generator().manual_seed(classes)
    logits = torch.randn(2, classes, *size, generator=random, dtype=torch.float64)
    peer = (3 * torch.randn(2, classes, *size, generator=random, dtype=torch.float64)).softmax(1)
    label = torch.randint(classes, (2, *size), generator=random)
    return logits.requires_grad_(), peer, label


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("classes", "size"), CASES)
def test_without_a_mask_all_voxels_count(name: str, classes: int, size: tuple[int, ...]) -> None:
    logits, peer, label = sample(classes, size)
    everywhere = torch.ones(2, *size, dtype=torch.bool)
    plain = LOSSES[name](logits, peer, label, None)
    masked = LOSSES[name](logits, peer, label, everywhere)
    assert plain.item() == masked.item() != 0
    (found,) = torch.autograd.grad(plain, logits)
    (expected,) = torch.autograd.grad(masked, logits)
    assert torch.equal(found, expected)
    assert found.abs().sum() > 0
    part = everywhere.clone()
    part[:, 2:] = False
    assert LOSSES[name](logits, peer, label, part).item() != plain.item()


def test_a_mean_without_a_mask_by_hand() -> None:
    assert tc.losses.masked_mean(torch.tensor([1.0, 2.0, 6.0])).item() == 3.0
    assert tc.losses.masked_mean(torch.zeros(0)).item() == 0.0


@pytest.mark.parametrize(("classes", "size"), CASES)
def test_crc_has_the_thresholds_of_the_paper(classes: int, size: tuple[int, ...]) -> None:
    logits, peer, _ = sample(classes, size)
    found = tc.losses.crc_loss(logits, peer)
    assert found.item() == tc.losses.crc_loss(logits, peer, gamma=0.65, beta=0.1).item()
    assert found.item() != tc.losses.crc_loss(logits, peer, gamma=0.9, beta=0.1).item()
    assert found.item() != tc.losses.crc_loss(logits, peer, gamma=0.65, beta=0.01).item()


def test_crc_of_one_voxel_with_the_defaults_by_hand() -> None:
    # The peer says (.95, .05) and the network (1/2, 1/2): .95 log 2 for the class that the peer is
    # sure of, and .95 log 2 for the one that it rules out. At (.6, .4) it is sure of nothing.
    logits = torch.zeros(1, 2, 1, 1)
    sure, unsure = (torch.tensor(p).reshape(1, 2, 1, 1) for p in ((0.95, 0.05), (0.6, 0.4)))
    assert tc.losses.crc_loss(logits, sure).item() == pytest.approx(1.9 * math.log(2))
    assert tc.losses.crc_loss(logits, unsure).item() == 0.0
    both = tc.losses.semi_supervised_loss((logits, logits), (sure, unsure))
    assert both.item() == pytest.approx(1.9 * math.log(2))


@pytest.mark.parametrize(("classes", "size"), CASES)
def test_translation_has_the_weights_of_the_paper(classes: int, size: tuple[int, ...]) -> None:
    logits, peer, _ = sample(classes, size)
    view, shift = (logits.log_softmax(dim=1), peer.log()), meeting(logits, None)
    found = tc.losses.translation_terms([view], shift)
    divergence, entropy = (
        tc.losses.overlap_divergence(*view, shift),
        tc.losses.negative_entropy(*view, shift),
    )
    torch.testing.assert_close(found["translation"], 1.0 * divergence)
    torch.testing.assert_close(found["entropy"], 0.1 * entropy)


def test_the_defaults_are_those_of_the_methods() -> None:
    def default(function: Callable[..., object], name: str) -> object:
        return inspect.signature(function).parameters[name].default

    config = TraCoCoConfig()
    for name in ("gamma", "beta", "negative_gate"):
        assert default(tc.losses.crc_loss, name) == getattr(config, name), name
    for name in ("consistency_weight", "entropy_weight", "stop_gradient"):
        assert default(tc.losses.translation_terms, name) == getattr(config, name), name
    for name in ("temperature", "detached"):
        assert default(tc.losses.mutual_loss, name) == getattr(MCNetConfig(), name), name


def test_every_loss_is_listed_and_documented() -> None:
    for name in tc.losses.__all__:
        assert inspect.getdoc(getattr(tc.losses, name)), name
