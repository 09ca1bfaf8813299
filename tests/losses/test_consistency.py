import math

import pytest
import torch
from torch import Tensor

from tracoco.losses.consistency import ce_loss, kl_loss, mse_loss
from tracoco.losses.crc import PeerLoss

LOSSES = [mse_loss, kl_loss, ce_loss]
INSIDE = torch.ones(1, 1, dtype=torch.bool)


def one_voxel(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).reshape(1, -1, 1)


def test_mse_of_one_voxel_by_hand() -> None:
    # Learner (3/4, 1/4), peer (1/2, 1/2): both classes differ by 1/4.
    loss = mse_loss(one_voxel(0.75, 0.25).log(), one_voxel(0.5, 0.5), INSIDE)
    assert loss.item() == pytest.approx(0.0625)


def test_mse_is_a_mean_over_classes() -> None:
    # Squares .09, .01, .01, .01 of four classes.
    loss = mse_loss(one_voxel(0.7, 0.1, 0.1, 0.1).log(), one_voxel(0.4, 0.2, 0.2, 0.2), INSIDE)
    assert loss.item() == pytest.approx(0.03)


def test_kl_of_one_voxel_by_hand_and_from_the_peer_to_the_learner() -> None:
    # 3/4 log(3/2) + 1/4 log(1/2); the other way round it is 1/2 log(2/3) + 1/2 log 2.
    loss = kl_loss(one_voxel(0.5, 0.5).log(), one_voxel(0.75, 0.25), INSIDE)
    assert loss.item() == pytest.approx(0.75 * math.log(1.5) - 0.25 * math.log(2))


def test_kl_sums_over_classes() -> None:
    # The peer is uniform: 1/4 (log(.25/.7) + 3 log(.25/.1)).
    loss = kl_loss(one_voxel(0.7, 0.1, 0.1, 0.1).log(), one_voxel(*[0.25] * 4), INSIDE)
    assert loss.item() == pytest.approx(0.25 * (math.log(0.25 / 0.7) + 3 * math.log(2.5)))


def test_kl_of_a_certain_peer_is_cross_entropy() -> None:
    learner, peer = one_voxel(0.2, 0.5, 0.3).log(), one_voxel(0.0, 1.0, 0.0)
    assert kl_loss(learner, peer, INSIDE).item() == pytest.approx(math.log(2))
    assert ce_loss(learner, peer, INSIDE).item() == pytest.approx(math.log(2))


def test_ce_takes_the_peers_class_and_not_its_confidence() -> None:
    learner = one_voxel(0.25, 0.75).log()
    for confidence in (0.51, 0.99):
        loss = ce_loss(learner, one_voxel(confidence, 1 - confidence), INSIDE)
        assert loss.item() == pytest.approx(math.log(4))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_learner_is_pulled_to_the_peer_and_the_peer_stays(loss: PeerLoss) -> None:
    learner = one_voxel(0.6, 0.3, 0.1).log().requires_grad_()
    peer = one_voxel(0.1, 0.3, 0.6).requires_grad_()
    loss(learner, peer, INSIDE).backward()
    assert peer.grad is None
    assert learner.grad is not None
    assert learner.grad[0, 0, 0] > 0 > learner.grad[0, 2, 0]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("size", [(6, 4), (6, 4, 2)])
@pytest.mark.parametrize("loss", LOSSES)
def test_padding_takes_no_part(loss: PeerLoss, classes: int, size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    learner = torch.randn(2, classes, *size)
    peer = torch.randn(2, classes, *size).softmax(dim=1)
    valid = torch.zeros(2, *size, dtype=torch.bool)
    valid[:, :3] = True
    whole = loss(learner, peer, valid)
    torch.testing.assert_close(whole, loss(learner[:, :, :3], peer[:, :, :3], valid[:, :3]))
    assert whole > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_inside_is_zero_and_still_connected(loss: PeerLoss) -> None:
    learner = torch.randn(1, 2, 4, 4, requires_grad=True)
    found = loss(learner, learner.softmax(dim=1), torch.zeros(1, 4, 4, dtype=torch.bool))
    assert found.item() == 0.0
    assert found.requires_grad
