import math

import pytest
import torch
from torch import Tensor

from tracoco.methods.scc import class_contrast


def contrast(labelled: Tensor, unlabelled: Tensor, temperature: float = 1.0) -> float:
    return class_contrast(labelled, unlabelled, temperature=temperature).item()


@pytest.mark.parametrize("classes", [2, 4])
def test_vectors_that_name_their_class_cost_minus_one_a_class(classes: int) -> None:
    vectors = torch.eye(classes).expand(3, -1, -1)
    assert contrast(vectors, vectors) == pytest.approx(-classes)
    assert contrast(vectors, 5 * vectors) == pytest.approx(-classes)
    assert contrast(vectors, vectors, temperature=2.0) == pytest.approx(-classes / 2)


@pytest.mark.parametrize("classes", [2, 4])
def test_equal_vectors_cost_nothing(classes: int) -> None:
    vectors = torch.ones(2, classes, 3)
    assert contrast(vectors, vectors) == pytest.approx(0.0, abs=1e-6)


def test_two_classes_by_hand() -> None:
    # Class 0 points along the first axis in both crops; class 1 along the second in the labelled
    # one and half-way in between in the unlabelled one.
    labelled = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    unlabelled = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])
    half = math.sqrt(0.5)
    expected = (-1 + half) + (-half + 0)
    assert contrast(labelled, unlabelled) == pytest.approx(expected)


def test_other_classes_count_by_their_mean() -> None:
    labelled = torch.eye(3).unsqueeze(0)
    unlabelled = torch.eye(3)[[1, 0, 2]].unsqueeze(0)  # classes 0 and 1 have changed places
    # Classes 0 and 1: 0 of their own, (1 + 0) / 2 of the others. Class 2: -1.
    assert contrast(labelled, unlabelled) == pytest.approx(0.5 + 0.5 - 1)


def test_equal_numbers_are_paired_in_order_and_others_each_with_each() -> None:
    aligned, swapped = torch.eye(2), torch.eye(2)[[1, 0]]
    labelled = torch.stack([aligned, swapped])
    assert contrast(labelled, labelled) == pytest.approx(-2.0)
    assert contrast(labelled, labelled.flip(0)) == pytest.approx(2.0)
    assert contrast(labelled, aligned.unsqueeze(0)) == pytest.approx(0.0)
    three = torch.stack([aligned, aligned, swapped])
    assert contrast(aligned.unsqueeze(0), three) == pytest.approx((-2 - 2 + 2) / 3)
    four = torch.stack([aligned, swapped, aligned, swapped])
    assert contrast(labelled, four) == pytest.approx(0.0)
