import math

import pytest
import torch
from torch import Tensor

from tracoco.methods.patchcl import ClassDistributions, distribution_contrast

OPTIONS = {"temperature": 0.2, "spread": 4.0, "negatives": 2.0}


def classes(mean: Tensor, covariance: Tensor | None = None) -> ClassDistributions:
    count, width = mean.shape
    covariance = torch.zeros(count, width, width) if covariance is None else covariance
    return ClassDistributions(mean, covariance, torch.ones(count, dtype=torch.bool))


def test_a_class_that_is_as_near_as_ones_own_costs_log_2() -> None:
    """No covariance, one other class, of weight 2 / 2."""
    embedding, mean = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8], [0.6, -0.8]])
    loss = distribution_contrast(embedding, torch.tensor([0]), classes(mean), **OPTIONS)
    assert loss.tolist() == pytest.approx([math.log(2)])


def test_similarities_and_weights_by_hand() -> None:
    """Three classes: own at similarity 1, others at 0 and -1, each of weight 2 / 3."""
    embedding = torch.tensor([[1.0, 0.0]])
    mean = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    loss = distribution_contrast(embedding, torch.tensor([1]), classes(mean), **OPTIONS)
    expected = math.log(math.exp(5) + 2 / 3 * (1 + math.exp(-5))) - 5
    assert loss.tolist() == pytest.approx([expected], rel=1e-4)


def test_the_covariance_counts_along_the_embedding() -> None:
    """4 / (2 x 0.04) = 50 times 0.01 along the first axis; the second axis has no say."""
    embedding, mean = torch.tensor([[1.0, 0.0]]), torch.zeros(2, 2)
    covariance = torch.zeros(2, 2, 2)
    covariance[0] = torch.diag(torch.tensor([0.01, 9.0]))
    loss = distribution_contrast(embedding, torch.tensor([0]), classes(mean, covariance), **OPTIONS)
    assert loss.tolist() == pytest.approx([math.log(math.exp(0.5) + 1)])
    loss = distribution_contrast(embedding, torch.tensor([1]), classes(mean, covariance), **OPTIONS)
    assert loss.tolist() == pytest.approx([math.log(1 + math.exp(0.5))])


def test_classes_that_are_absent_are_left_out() -> None:
    embedding, label = torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([0])
    mean = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    known = ClassDistributions(mean, torch.zeros(4, 2, 2), torch.tensor([True, True, False, False]))
    loss = distribution_contrast(embedding, label, known, **OPTIONS)
    assert loss.tolist() == pytest.approx([math.log(2)])
    alone = ClassDistributions(mean, torch.zeros(4, 2, 2), torch.tensor([True, *[False] * 3]))
    assert distribution_contrast(embedding, label, alone, **OPTIONS).tolist() == [0.0]
    nothing = ClassDistributions(mean, torch.zeros(4, 2, 2), torch.zeros(4, dtype=torch.bool))
    loss = distribution_contrast(embedding, label, nothing, **OPTIONS)
    loss.sum().backward()
    assert embedding.grad is not None
    assert embedding.grad.isfinite().all()


def test_an_embedding_moves_to_its_class_and_from_the_other() -> None:
    embedding = torch.tensor([[0.0, 1.0]], requires_grad=True)
    mean = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    distribution_contrast(embedding, torch.tensor([0]), classes(mean), **OPTIONS).sum().backward()
    assert embedding.grad is not None
    assert embedding.grad[0, 0] < 0  # descent goes towards (1, 0)
    assert mean.grad is None


def test_half_precision_changes_nothing() -> None:
    torch.manual_seed(0)
    embedding = torch.nn.functional.normalize(torch.randn(5, 8), dim=1)
    label, known = torch.tensor([0, 1, 2, 1, 0]), classes(torch.randn(3, 8), torch.rand(3, 8, 8))
    expected = distribution_contrast(embedding, label, known, **OPTIONS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(distribution_contrast(embedding, label, known, **OPTIONS), expected)
