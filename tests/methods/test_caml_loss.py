import math

import pytest
import torch

from tracoco.methods.caml import relation_loss


def test_uniform_relations_to_four_prototypes_cost_log_4() -> None:
    features, prototypes = torch.ones(3, 2), torch.ones(4, 2)
    loss = relation_loss(features, features, prototypes, temperature=0.1)
    assert loss.item() == pytest.approx(math.log(4), rel=1e-5)


def test_the_same_single_relation_costs_nothing() -> None:
    features, prototypes = torch.tensor([[10.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    loss = relation_loss(features, features, prototypes, temperature=0.1)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_opposite_single_relations_cost_what_the_release_lets_them() -> None:
    prototypes = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    here, there = torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 100.0]])
    loss = relation_loss(here, there, prototypes, temperature=0.1)
    assert loss.item() == pytest.approx(-math.log(1e-8), rel=1e-5)


def test_it_is_the_cross_entropy_with_the_peers_shares() -> None:
    # Similarities (1, 0): at a temperature of 1 / log 3, shares 3/4 and 1/4. The peer has halves.
    prototypes = torch.eye(2)
    learner, peer = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    loss = relation_loss(learner, peer, prototypes, temperature=1 / math.log(3))
    expected = -0.5 * math.log(0.75) - 0.5 * math.log(0.25)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_both_networks_have_gradient_and_prototypes_have_none() -> None:
    torch.manual_seed(0)
    learner, peer, prototypes = (torch.randn(n, 3, requires_grad=True) for n in (5, 5, 4))
    relation_loss(learner, peer, prototypes, temperature=1.0).backward()
    assert learner.grad is not None
    assert peer.grad is not None
    assert prototypes.grad is None


@pytest.mark.parametrize(("voxels", "prototypes"), [(0, 4), (4, 0), (0, 0)])
def test_without_voxels_or_prototypes_it_is_zero_and_connected(
    voxels: int, prototypes: int
) -> None:
    features = torch.ones(voxels, 3, requires_grad=True)
    loss = relation_loss(features, features, torch.ones(prototypes, 3), temperature=0.1)
    assert loss.item() == 0.0
    assert loss.requires_grad
