import math

import pytest
import torch
from fixed_predictions import Answering, answer_with, by_halves, everywhere
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.methods.ac_mt import ACMT

STEPS = 40


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> ACMT:
    method = make_method("ac-mt", dimensions, classes, STEPS, 2, **settings)
    assert isinstance(method, ACMT)
    return method


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_student_that_knows_nothing_learns_and_a_sure_one_does_not(dimensions: int) -> None:
    method = make(dimensions)
    teacher = Answering(everywhere(0.75, 0.25, dimensions=dimensions))
    for sure, expected in [(0.5, 0.0625), (1 - 1e-6, 0.0)]:
        student = Answering(everywhere(sure, 1 - sure, dimensions=dimensions))
        answer_with(method, student, teacher)
        term = method(make_batch(dimensions), STEPS).terms["consistency"]
        assert term.item() == pytest.approx(0.2 * expected, rel=1e-5)
        assert term.requires_grad


def test_the_threshold_rises_along_the_run() -> None:
    # Entropy .9183 of (1/3, 2/3), between .75135 at the first step and .95 at the last.
    method = make()
    assert method.threshold(0) == pytest.approx(0.75 + 0.2 * math.exp(-5))
    assert method.threshold(STEPS) == pytest.approx(0.95)
    answer_with(method, Answering(everywhere(1 / 3, 2 / 3)), Answering(everywhere(0.5, 0.5)))
    assert method(make_batch(), 0).terms["consistency"].item() > 0
    assert method(make_batch(), STEPS).terms["consistency"].item() == 0.0
    assert make(threshold_rise=-0.15).threshold(STEPS) == pytest.approx(0.6)


def test_with_four_classes_doubt_is_a_share_of_log_four() -> None:
    # Entropy of (1/2, 1/2, 0, 0) is all of log 2 but half of log 4.
    method = make(classes=4)
    teacher = Answering(everywhere(0.7, 0.1, 0.1, 0.1))
    batch = make_batch(classes=4)
    answer_with(method, Answering(everywhere(0.5, 0.5, 1e-30, 1e-30)), teacher)
    assert method(batch, 0).terms["consistency"].item() == 0.0
    answer_with(method, Answering(everywhere(*[0.25] * 4)), teacher)
    assert method(batch, STEPS).terms["consistency"].item() == pytest.approx(0.2 * 0.0675, rel=1e-5)


@pytest.mark.parametrize("elsewhere", [0.0, 0.5, 1.0])
def test_the_mean_is_over_ambiguous_voxels_whatever_the_teacher_says_of_others(
    elsewhere: float,
) -> None:
    method = make()
    student = by_halves(everywhere(0.5, 0.5), everywhere(0.99, 0.01))
    prediction = by_halves(everywhere(0.7, 0.3), everywhere(elsewhere + 1e-9, 1 - elsewhere + 1e-9))
    answer_with(method, Answering(student), Answering(prediction))
    batch = make_batch()
    output = method(batch, STEPS)
    assert output.terms["consistency"].item() == pytest.approx(0.2 * 0.04, rel=1e-5)
    assert method.health(output, batch).further["ambiguous"] == pytest.approx(0.5)


def test_the_weight_is_at_its_largest_after_three_quarters_of_the_run() -> None:
    method = make()
    weights = [method.consistency_weight(step) for step in (0, 15, 30, 40)]
    assert weights == pytest.approx([0.2 * math.exp(-5), 0.2 * math.exp(-1.25), 0.2, 0.2])
    assert make(rampup_steps=10).consistency_weight(10) == pytest.approx(0.2)


def test_padding_does_not_count() -> None:
    method = make()
    prediction = by_halves(everywhere(0.9, 0.1), everywhere(0.7, 0.3))
    answer_with(method, Answering(everywhere(0.5, 0.5)), Answering(prediction))
    batch = make_batch()
    batch.first.valid[2:, ..., :8] = False
    output = method(batch, STEPS)
    assert output.terms["consistency"].item() == pytest.approx(0.2 * 0.04, rel=1e-5)
    assert method.health(output, batch).further["ambiguous"] == pytest.approx(1.0)


def test_the_student_is_pulled_to_the_teacher_and_not_out_of_its_doubt() -> None:
    method = make()
    student, teacher = Answering(everywhere(0.55, 0.45)), Answering(everywhere(0.4, 0.6))
    answer_with(method, student, teacher)
    method(make_batch(), STEPS).terms["consistency"].backward()
    gradient = student.logits[0].grad
    assert gradient is not None
    # d/dz of (p - q)^2 is 2 (p - q) p (1 - p) in each direction.
    torch.testing.assert_close(
        gradient.flatten(), 0.2 * 2 * 0.15 * 0.55 * 0.45 * torch.tensor([1.0, -1.0])
    )
    assert teacher.logits[0].grad is None


def test_repeated_passes_of_the_student_say_what_is_ambiguous() -> None:
    sure, other = everywhere(0.99, 0.01), everywhere(0.01, 0.99)
    teacher = Answering(everywhere(0.79, 0.21))
    for predictions, expected in [((sure, sure, other), 0.04), ((sure, sure, sure), 0.0)]:
        method = make(passes=2, noise=0.05)
        student = Answering(*predictions)
        answer_with(method, student, teacher)
        batch = make_batch()
        found = method(batch, STEPS).terms["consistency"].item()
        assert found == pytest.approx(0.2 * expected, rel=1e-4)
        assert torch.equal(student.calls[0], batch.first.values)
        first, second = (call - batch.first.values[2:] for call in student.calls[1:])
        assert first.abs().max().item() == pytest.approx(0.1, rel=1e-4)
        assert not torch.equal(first, second)


class Normalising(nn.Module):
    """A network with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv3d(1, 2, 1), nn.BatchNorm3d(2))

    def forward(self, crops: Tensor) -> Tensor:
        logits: Tensor = self.layers(crops)
        return logits


def test_repeated_passes_leave_running_statistics_alone() -> None:
    method = make(passes=3)
    answer_with(method, Normalising(), Normalising())
    method(make_batch(), 0)
    assert method.student.get_buffer("layers.1.num_batches_tracked").item() == 1
