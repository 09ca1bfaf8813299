import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.crc import (
    NegativeGate,
    class_negative_weight,
    crc_loss,
    minimum_negative_weight,
    positive_weight,
    semi_supervised_loss,
)


def one_voxel(*probabilities: float) -> Tensor:
    """Class probabilities of a single voxel, [1, C, 1]."""
    return torch.tensor(probabilities, dtype=torch.float64).reshape(1, -1, 1)


INSIDE = torch.ones(1, 1, dtype=torch.bool)


def crc(
    own: Tensor,
    peer: Tensor,
    gamma: float = 0.65,
    beta: float = 0.1,
    negative_gate: NegativeGate = "class",
) -> Tensor:
    valid = torch.ones(len(own), *own.shape[2:], dtype=torch.bool)
    return crc_loss(own.log(), peer, valid, gamma=gamma, beta=beta, negative_gate=negative_gate)


def test_sure_but_not_certain_teaches_the_class_by_its_confidence() -> None:
    # Peer (1/4, 3/4), own (1/2, 1/2): 3/4 * log 2, and no class is below 0.1.
    loss = crc(one_voxel(0.5, 0.5), one_voxel(0.25, 0.75))
    assert loss.item() == pytest.approx(0.75 * math.log(2))


def test_certain_also_unlearns_the_class_that_is_ruled_out() -> None:
    # Peer (.05, .95), own (1/2, 1/2): .95 * -log p1 + .95 * -log(1 - p0) = 1.9 * log 2.
    loss = crc(one_voxel(0.5, 0.5), one_voxel(0.05, 0.95))
    assert loss.item() == pytest.approx(1.9 * math.log(2))


def test_unsure_teaches_nothing() -> None:
    assert crc(one_voxel(0.2, 0.8), one_voxel(0.55, 0.45)).item() == 0.0


def test_four_classes_unlearn_each_ruled_out_class_by_itself() -> None:
    # Peer (.5, .44, .05, .01) reaches no 0.65, so only classes 2 and 3 are unlearnt:
    # .95 * -log(1 - 1/4) + .99 * -log(1 - 1/4).
    loss = crc(one_voxel(0.25, 0.25, 0.25, 0.25), one_voxel(0.5, 0.44, 0.05, 0.01))
    assert loss.item() == pytest.approx(1.94 * math.log(4 / 3))


def test_the_minimum_over_four_classes_decides_for_all_but_the_most_likely() -> None:
    # Peer (.5, .44, .05, .01) reaches no 0.65. Its least is .01 < .1: classes 1, 2 and 3 are
    # unlearnt with weight .99, the runner-up of .44 too: 3 * .99 * -log(1 - 1/4).
    own, peer = one_voxel(0.25, 0.25, 0.25, 0.25), one_voxel(0.5, 0.44, 0.05, 0.01)
    loss = crc(own, peer, negative_gate="minimum")
    assert loss.item() == pytest.approx(2.97 * math.log(4 / 3))
    # With a least of .1 nothing is unlearnt, and .5 teaches nothing.
    level = one_voxel(0.5, 0.3, 0.1, 0.1)
    assert crc(own, level, negative_gate="minimum").item() == 0.0


def test_for_two_classes_the_minimum_is_the_class_itself() -> None:
    torch.manual_seed(0)
    own, peer = (torch.randn(2, 2, 4, 4, dtype=torch.float64).softmax(dim=1) for _ in range(2))
    by_class, by_minimum = crc(own, peer), crc(own, peer, negative_gate="minimum")
    assert by_class.item() == by_minimum.item() > 0


def test_the_minimum_pushes_every_other_class_down() -> None:
    logits = torch.zeros(1, 4, 1, dtype=torch.float64, requires_grad=True)
    peer, valid = one_voxel(0.5, 0.44, 0.05, 0.01), INSIDE
    settings = {"gamma": 0.65, "beta": 0.1}
    (gradient,) = torch.autograd.grad(
        crc_loss(logits, peer, valid, **settings, negative_gate="minimum"), logits
    )
    # Descent lowers classes 1 to 3 alike and raises class 0.
    most, *others = gradient.flatten().tolist()
    assert most < 0 < others[0]
    assert others == pytest.approx([others[0]] * 3)


def test_gates_are_at_least_and_below() -> None:
    assert positive_weight(one_voxel(0.35, 0.65), 0.65).item() == pytest.approx(0.65)
    assert positive_weight(one_voxel(0.36, 0.64), 0.65).item() == 0.0
    gate = class_negative_weight(one_voxel(0.1, 0.09, 0.81), 0.1).flatten().tolist()
    assert gate == pytest.approx([0.0, 0.91, 0.0])
    gate = minimum_negative_weight(one_voxel(0.1, 0.09, 0.81), 0.1).flatten().tolist()
    assert gate == pytest.approx([0.91, 0.91, 0.0])
    assert not minimum_negative_weight(one_voxel(0.1, 0.1, 0.8), 0.1).any()


def test_beta_zero_switches_the_negative_part_off() -> None:
    own, peer = one_voxel(0.5, 0.5), one_voxel(0.0, 1.0)
    assert crc(own, peer, beta=0.0).item() == pytest.approx(math.log(2))


GRADIENT_TABLE = [
    # pseudo-label p0, prediction p0, derivative of CE, of CRC: the paper's table of gradients
    (0.55, 0.2, -5.0, 0.0),
    (0.55, 0.8, -1.25, 0.0),
    (0.65, 0.2, -5.0, -3.25),
    (0.65, 0.8, -1.25, -0.813),
    (0.95, 0.2, -5.0, -9.5),
    (0.95, 0.8, -1.25, -2.37),
]


@pytest.mark.parametrize(
    ("pseudo_label", "prediction", "cross_entropy", "confident"), GRADIENT_TABLE
)
def test_the_papers_table_of_gradients(
    pseudo_label: float, prediction: float, cross_entropy: float, confident: float
) -> None:
    """Derivatives by p0 along p1 = 1 - p0, at gamma = 0.65 and beta = 0.1."""
    p0 = torch.tensor(prediction, dtype=torch.float64, requires_grad=True)
    own = torch.stack([p0, 1 - p0]).reshape(1, 2, 1)
    peer = one_voxel(pseudo_label, 1 - pseudo_label)
    (by_crc,) = torch.autograd.grad(crc(own, peer), p0, retain_graph=True)
    (by_ce,) = torch.autograd.grad(F.cross_entropy(own.log(), peer.argmax(dim=1)), p0)
    assert by_ce.item() == pytest.approx(cross_entropy, abs=0.006)
    assert by_crc.item() == pytest.approx(confident, abs=0.006)


def test_no_gradient_reaches_the_peer() -> None:
    peer = one_voxel(0.05, 0.95).requires_grad_()
    own = one_voxel(0.5, 0.5).requires_grad_()
    crc(own, peer).backward()
    assert peer.grad is None
    assert own.grad is not None


def test_a_confident_mistake_still_has_a_gradient() -> None:
    # p of class 0 is 1 in float32; a clamped logarithm would give no gradient at all.
    logits = torch.tensor([60.0, 0.0]).reshape(1, 2, 1).requires_grad_()
    peer = one_voxel(0.02, 0.98).float()
    crc_loss(logits, peer, INSIDE, gamma=0.65, beta=0.1).backward()
    assert logits.grad is not None
    assert logits.grad.flatten().tolist() == pytest.approx([1.96, -1.96], rel=1e-4)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("size", [(6, 4), (6, 4, 2)])
def test_padding_takes_no_part(classes: int, size: tuple[int, ...]) -> None:
    own = torch.randn(2, classes, *size)
    peer = (3 * torch.randn(2, classes, *size)).softmax(dim=1)
    valid = torch.zeros(2, *size, dtype=torch.bool)
    valid[:, :3] = True
    whole = crc_loss(own, peer, valid, gamma=0.65, beta=0.1)
    cropped = crc_loss(own[:, :, :3], peer[:, :, :3], valid[:, :3], gamma=0.65, beta=0.1)
    torch.testing.assert_close(whole, cropped)
    assert whole > 0


def test_nothing_inside_is_zero_not_nan() -> None:
    own = torch.randn(1, 2, 4, 4)
    valid = torch.zeros(1, 4, 4, dtype=torch.bool)
    assert crc_loss(own, own.softmax(dim=1), valid, gamma=0.65, beta=0.1).item() == 0.0


def test_each_network_learns_from_the_other() -> None:
    # Network 1 says class 1, network 2 says class 0: each is pulled to the other's answer.
    first = one_voxel(0.1, 0.9).log().requires_grad_()
    second = one_voxel(0.8, 0.2).log().requires_grad_()
    peers = (first.softmax(dim=1), second.softmax(dim=1))
    loss = semi_supervised_loss(
        (first, second), peers, INSIDE, partial(crc_loss, gamma=0.65, beta=0.05)
    )
    # .8 * -log p1(class 0) + .9 * -log p2(class 1)
    assert loss.item() == pytest.approx(0.8 * math.log(10) + 0.9 * math.log(5))
    loss.backward()
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad[0, 0, 0] < 0 < first.grad[0, 1, 0]
    assert second.grad[0, 1, 0] < 0 < second.grad[0, 0, 0]


def test_the_most_likely_class_is_never_unlearnt() -> None:
    """Twelve even classes are all below .1, and of (.55, .45) both are below .6."""
    even = torch.full((1, 12, 1, 1), 1 / 12)
    gate = class_negative_weight(even, 0.1)[0, :, 0, 0]
    assert gate[0] == 0
    torch.testing.assert_close(gate[1:], torch.full((11,), 11 / 12))
    pair = torch.tensor([0.55, 0.45]).reshape(1, 2, 1, 1)
    torch.testing.assert_close(
        class_negative_weight(pair, 0.6)[0, :, 0, 0], torch.tensor([0.0, 0.55])
    )
