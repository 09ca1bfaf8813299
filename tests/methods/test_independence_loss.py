import pytest
import torch

from tracoco.methods.parts.independence import dependence


def test_dependence_by_hand() -> None:
    # Rows (1, 1) and (0, 2) against the unit vectors: squared cosines 1/2 and 1.
    own = torch.tensor([[1.0, 1.0], [0.0, 2.0]])
    assert dependence(own, torch.eye(2), torch.eye(2)).item() == pytest.approx(0.75)


def test_equal_filters_depend_wholly_orthogonal_ones_not_at_all_and_signs_do_not_matter() -> None:
    own = torch.tensor([[1.0, 2.0], [-3.0, 1.0]])
    across = torch.tensor([[-2.0, 1.0], [1.0, 3.0]])
    assert dependence(own, own, torch.eye(2)).item() == pytest.approx(1.0)
    assert dependence(own, own, -torch.eye(2)).item() == pytest.approx(1.0)
    assert dependence(own, across, torch.eye(2)).item() == pytest.approx(0.0, abs=1e-6)


def test_rescaled_filters_depend_as_much() -> None:
    torch.manual_seed(0)
    own, others, combination = torch.randn(3, 5), torch.randn(4, 5), torch.randn(3, 4)
    scaled = torch.tensor([[0.1], [2.0], [30.0]])
    expected = dependence(own, others, combination)
    torch.testing.assert_close(dependence(scaled * own, others, combination), expected)
    torch.testing.assert_close(dependence(own, others, scaled * combination), expected)


def test_the_gradient_reaches_own_filters_and_combinations_alone() -> None:
    torch.manual_seed(0)
    own, others, combination = (
        torch.randn(*shape, requires_grad=True) for shape in [(3, 5), (4, 5), (3, 4)]
    )
    dependence(own, others, combination).backward()
    assert own.grad is not None
    assert combination.grad is not None
    assert others.grad is None


def test_under_autocast_nothing_is_rounded() -> None:
    torch.manual_seed(0)
    arguments = torch.randn(3, 5), torch.randn(4, 5), torch.randn(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = dependence(*arguments)
    assert torch.equal(found, dependence(*arguments))
