import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.methods.parts.context_contrast import Bank, Points, contrast_loss, directional_loss

OPTIONS = {"threshold": 0.75, "temperature": 0.1}


def unit(*cosines: float) -> Tensor:
    """A vector of length one for each cosine of its angle to (1, 0): [N, 2]."""
    return torch.tensor([[c, math.sqrt(1 - c * c)] for c in cosines])


def points(features: Tensor, confidence: float, label: int = 0) -> Points:
    count = len(features)
    return Points(features, torch.full((count,), confidence), torch.full((count,), label))


def test_a_perfect_match_and_one_stranger_at_a_right_angle() -> None:
    # -log(e^10 / (e^10 + e^0)) = log(1 + e^-10)
    bank = Bank(unit(0.0), torch.tensor([1]))
    learner, teacher = points(unit(1.0), 0.8), points(unit(1.0), 0.9)
    loss = directional_loss(learner, teacher, bank, **OPTIONS)
    assert loss.item() == pytest.approx(math.log1p(math.exp(-10)), rel=1e-2)


def test_a_match_no_better_than_three_strangers_is_log_four() -> None:
    bank = Bank(unit(0.5, 0.5, 0.5), torch.tensor([1, 2, 3]))
    learner, teacher = points(unit(1.0), 0.8), points(unit(0.5), 0.9)
    loss = directional_loss(learner, teacher, bank, **OPTIONS)
    assert loss.item() == pytest.approx(math.log(4), rel=1e-5)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_temperature_divides_similarities(temperature: float) -> None:
    bank = Bank(unit(0.25), torch.tensor([1]))
    learner, teacher = points(unit(1.0), 0.8), points(unit(0.5), 0.9)
    loss = directional_loss(learner, teacher, bank, threshold=0.75, temperature=temperature)
    assert loss.item() == pytest.approx(math.log1p(math.exp(-0.25 / temperature)), rel=1e-5)


def test_features_of_the_learners_own_label_are_no_strangers() -> None:
    # The teacher's label is another one; it is the learner's that decides.
    bank = Bank(unit(0.5, 0.5, 0.5), torch.tensor([0, 0, 2]))
    learner, teacher = points(unit(1.0), 0.8, label=0), points(unit(0.5), 0.9, label=2)
    loss = directional_loss(learner, teacher, bank, **OPTIONS)
    assert loss.item() == pytest.approx(math.log(2), rel=1e-5)


def test_without_strangers_there_is_nothing_to_learn_but_a_term() -> None:
    features = unit(0.3).requires_grad_()
    bank = Bank(unit(0.5), torch.tensor([0]))
    loss = directional_loss(points(features, 0.8), points(unit(1.0), 0.9), bank, **OPTIONS)
    loss.backward()
    assert loss.item() == 0.0
    assert features.grad is not None
    assert not features.grad.any()


def test_the_less_confident_view_follows_and_the_other_stays() -> None:
    first, second = unit(0.9, 0.8).requires_grad_(), unit(0.6, 0.5).requires_grad_()
    bank = Bank(unit(0.0).requires_grad_(), torch.tensor([1]))
    loss = contrast_loss(points(first, 0.9), points(second, 0.8), bank, **OPTIONS)
    loss.backward()
    torch.testing.assert_close(
        loss, directional_loss(points(second, 0.8), points(first, 0.9), bank, **OPTIONS)
    )
    assert second.grad is not None
    assert second.grad[:, 0].lt(0).all()  # towards the first view, along its larger component
    assert second.grad[:, 1].gt(0).all()  # away from the stranger
    assert first.grad is None or not first.grad.any()
    assert bank.features.grad is None


def test_each_voxel_asks_for_its_own_direction() -> None:
    # At voxel 0 the second view is surer, at voxel 1 the first.
    first, second = unit(0.9, 0.9).requires_grad_(), unit(0.6, 0.6).requires_grad_()
    bank = Bank(unit(0.0), torch.tensor([1]))
    labels = torch.zeros(2, dtype=torch.long)
    here = Points(first, torch.tensor([0.6, 0.9]), labels)
    there = Points(second, torch.tensor([0.8, 0.7]), labels)
    contrast_loss(here, there, bank, **OPTIONS).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad.any(dim=1).tolist() == [True, False]
    assert second.grad.any(dim=1).tolist() == [False, True]


@pytest.mark.parametrize(("learner", "teacher"), [(0.7, 0.75), (0.8, 0.8), (0.9, 0.8)])
def test_a_view_that_is_not_sure_enough_or_not_surer_teaches_nothing(
    learner: float, teacher: float
) -> None:
    features = unit(0.3).requires_grad_()
    bank = Bank(unit(0.5), torch.tensor([1]))
    own, other = points(features, learner), points(unit(1.0), teacher)
    loss = directional_loss(own, other, bank, **OPTIONS)
    assert loss.item() == 0.0
    assert loss.requires_grad


def test_the_mean_is_over_the_voxels_that_are_taught() -> None:
    bank = Bank(unit(0.5), torch.tensor([1]))
    labels = torch.zeros(3, dtype=torch.long)
    learner = Points(unit(1.0, 1.0, 1.0), torch.tensor([0.6, 0.6, 0.6]), labels)
    teacher = Points(unit(0.5, 0.5, 0.5), torch.tensor([0.9, 0.9, 0.7]), labels)
    loss = directional_loss(learner, teacher, bank, **OPTIONS)
    assert loss.item() == pytest.approx(math.log(2), rel=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_many_voxels_are_the_mean_of_each_by_itself(classes: int) -> None:
    torch.manual_seed(0)

    def some(count: int) -> tuple[Tensor, Tensor]:
        return F.normalize(torch.randn(count, 5), dim=1), torch.randint(classes, (count,))

    (own, label), (other, other_label), (held, held_label) = some(20), some(20), some(30)
    learner = Points(own, torch.full((20,), 0.5), label)
    teacher = Points(other, torch.full((20,), 0.9), other_label)
    expected = []
    for index in range(20):
        positive = math.exp(float(own[index] @ other[index]) / 0.1)
        strangers = held[held_label != label[index]] @ own[index]
        expected.append(math.log1p(float((strangers.double() / 0.1).exp().sum()) / positive))
    loss = directional_loss(learner, teacher, Bank(held, held_label), **OPTIONS)
    assert loss.item() == pytest.approx(sum(expected) / 20, rel=1e-4)


def test_a_small_temperature_does_not_overflow() -> None:
    bank = Bank(unit(1.0), torch.tensor([1]))
    pair = points(unit(1.0), 0.8), points(unit(-1.0), 0.9)
    loss = directional_loss(*pair, bank, threshold=0.75, temperature=1e-3)
    assert loss.item() == pytest.approx(2000, rel=1e-5)


def test_no_voxels_are_zero_and_not_nan() -> None:
    features = torch.zeros(0, 2, requires_grad=True)
    loss = contrast_loss(
        points(features, 0.8), points(features, 0.9), Bank(unit(0.5), torch.tensor([1])), **OPTIONS
    )
    assert loss.item() == 0.0
    assert loss.requires_grad


def test_under_autocast_similarities_keep_their_digits() -> None:
    bank = Bank(unit(0.123), torch.tensor([1]))
    learner, teacher = points(unit(0.987), 0.8), points(unit(0.9), 0.9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = directional_loss(learner, teacher, bank, **OPTIONS)
    assert loss.item() == directional_loss(learner, teacher, bank, **OPTIONS).item()
