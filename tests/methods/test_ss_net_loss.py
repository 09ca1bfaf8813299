import pytest
import torch

from tracoco.methods.ss_net import separation_loss


def test_a_feature_on_the_prototype_and_one_across_it_are_half_apart_on_average() -> None:
    features = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    prototype = torch.tensor([[5.0, 0.0]])
    loss = separation_loss(features, prototype, torch.zeros(2))
    assert loss.item() == pytest.approx(0.5, rel=1e-5)


def test_all_prototypes_count_alike() -> None:
    # Cosines 1 and 0 with the two prototypes, then 0 and 1.
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    prototypes = torch.tensor([[4.0, 0.0], [0.0, 0.5]])
    loss = separation_loss(features, prototypes, torch.zeros(2))
    assert loss.item() == pytest.approx(0.5, rel=1e-5)


def test_the_length_of_a_prototype_does_not_count() -> None:
    # At length one (0.6, 0.8) and (0, 1): cosines 0.6 and 0.
    prototypes = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    loss = separation_loss(torch.tensor([[1.0, 0.0]]), prototypes, torch.zeros(1))
    assert loss.item() == pytest.approx(0.7, rel=1e-5)


def test_the_weights_are_sigmoids_divided_by_their_mean() -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    prototype = torch.tensor([[1.0, 0.0]])
    # Sigmoids 3/4 and 1/4: weights 1.5 and 0.5, of which the second is at distance 1.
    scores = torch.tensor([3.0, 1 / 3]).log().requires_grad_()
    loss = separation_loss(features, prototype, scores)
    assert loss.item() == pytest.approx(0.25, rel=1e-5)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0] < 0 < scores.grad[1]  # the far feature is to count less


def test_features_are_drawn_to_prototypes_which_have_no_gradient() -> None:
    features = torch.tensor([[1.0, 1.0]], requires_grad=True)
    prototypes = torch.tensor([[1.0, 0.0]], requires_grad=True)
    separation_loss(features, prototypes, torch.zeros(1)).backward()
    assert features.grad is not None
    assert features.grad[0, 0] < 0 < features.grad[0, 1]
    assert prototypes.grad is None


@pytest.mark.parametrize(("count", "prototypes"), [(0, 2), (2, 0), (0, 0)])
def test_without_features_or_prototypes_it_is_zero_and_connected(
    count: int, prototypes: int
) -> None:
    features = torch.ones(count, 3, requires_grad=True)
    loss = separation_loss(features, torch.ones(prototypes, 3), torch.zeros(count))
    assert loss.item() == 0.0
    assert loss.requires_grad
