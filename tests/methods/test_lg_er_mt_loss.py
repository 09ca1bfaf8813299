import pytest
import torch
from torch import Tensor

from tracoco.methods.lg_er_mt import similarity_loss


def voxels(*probabilities: tuple[float, ...]) -> Tensor:
    """One cube, [1, C, n]."""
    return torch.tensor(probabilities).T.unsqueeze(0)


def by_matrices(own: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """The definition, pair by pair."""
    found = []
    for first, second, counted in zip(own, other, valid, strict=True):
        matrices = []
        for prediction in (first, second):
            rows = prediction.flatten(1).T[counted.flatten()].double()
            directions = rows / rows.norm(dim=1, keepdim=True)
            matrices.append(directions @ directions.T)
        found.append((matrices[0] - matrices[1]).square().mean())
    return torch.stack(found).mean()


def test_two_voxels_by_hand() -> None:
    # The student's differ, the teacher's are alike: two of four pairs are wrong by 1.
    student, teacher = voxels((1, 0), (0, 1)), voxels((1, 0), (1, 0))
    loss = similarity_loss(student.float(), teacher.float(), torch.ones(1, 2, dtype=torch.bool))
    assert loss.item() == pytest.approx(0.5)


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
@pytest.mark.parametrize("classes", [2, 4])
def test_it_is_the_definition_without_its_matrices(classes: int, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    own, other = torch.randn(2, 3, classes, *shape).softmax(dim=2)
    valid = torch.rand(3, *shape) < 0.7
    own.requires_grad_()
    loss, expected = similarity_loss(own, other, valid), by_matrices(own, other, valid)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    found, wanted = (torch.autograd.grad(each, own)[0] for each in (loss, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-8)


def test_small_differences_are_not_rounded_away() -> None:
    torch.manual_seed(0)
    own = torch.randn(1, 2, 500).softmax(dim=1)
    other = (own.log() + 1e-4 * torch.randn(1, 2, 500)).softmax(dim=1)
    valid = torch.ones(1, 500, dtype=torch.bool)
    expected = by_matrices(own, other, valid).item()
    assert similarity_loss(own, other, valid).item() == pytest.approx(expected, rel=1e-2)


def test_equal_answers_have_no_loss() -> None:
    own = torch.rand(2, 4, 6).softmax(dim=1)
    assert similarity_loss(own, own.clone(), torch.ones(2, 6, dtype=torch.bool)).item() == 0.0


def test_a_cube_of_padding_counts_for_nothing_and_no_gradient_reaches_the_teacher() -> None:
    student = torch.cat([voxels((1, 0), (0, 1)), voxels((1, 0), (0, 1))]).float()
    teacher = torch.cat([voxels((1, 0), (1, 0)), voxels((1, 0), (1, 0))]).float()
    valid = torch.tensor([[True, True], [False, False]])
    student.requires_grad_()
    teacher.requires_grad_()
    loss = similarity_loss(student, teacher, valid)
    assert loss.item() == pytest.approx(0.5)
    loss.backward()
    assert student.grad is not None
    assert student.grad[0].any()
    assert not student.grad[1].any()
    assert teacher.grad is None
    nothing = similarity_loss(student, teacher, torch.zeros_like(valid))
    assert nothing.item() == 0.0


def test_under_autocast_it_is_computed_in_full() -> None:
    torch.manual_seed(0)
    own, other = torch.randn(2, 1, 2, 50).softmax(dim=2)
    valid = torch.ones(1, 50, dtype=torch.bool)
    expected = similarity_loss(own, other, valid)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(similarity_loss(own, other, valid), expected)
