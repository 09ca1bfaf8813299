import math

import pytest
import torch
from fixed_predictions import Answering, answer_with, by_halves, everywhere
from samples import make_batch, make_method

from tracoco.methods.mean_teacher import MeanTeacher
from tracoco.methods.ua_mt import UAMT

STEPS = 30


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> UAMT:
    method = make_method("ua-mt", dimensions, classes, STEPS, 2, **settings)
    assert isinstance(method, UAMT)
    return method


def consistency(method: UAMT, step: int, dimensions: int = 3, classes: int = 2) -> float:
    """Per unit of its weight."""
    terms = method(make_batch(dimensions, classes), step).terms
    return float(terms["consistency"].item()) / method.consistency_weight(step)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_sure_teacher_counts_and_an_unsure_one_only_at_the_end(dimensions: int) -> None:
    # Entropies .50040 and .56234 against .52103 at the first step and log 2 at the last.
    method = make(dimensions)
    assert method.threshold(0) * math.log(2) == pytest.approx(0.52103, abs=1e-5)
    for sure, first in [(0.8, 0.09), (0.75, 0.0)]:
        student = Answering(everywhere(0.5, 0.5, dimensions=dimensions))
        teacher = Answering(everywhere(sure, 1 - sure, dimensions=dimensions))
        answer_with(method, student, teacher)
        assert consistency(method, 0, dimensions) == pytest.approx(first, abs=1e-6)
        last = consistency(method, STEPS, dimensions)
        assert last == pytest.approx((sure - 0.5) ** 2, rel=1e-5)


def test_with_four_classes_sureness_is_a_share_of_log_four() -> None:
    # Entropy .9404: more than log 2, but .678 of log 4. Squares .2025 and three times .0225.
    method = make(classes=4)
    answer_with(
        method, Answering(everywhere(*[0.25] * 4)), Answering(everywhere(0.7, 0.1, 0.1, 0.1))
    )
    assert consistency(method, 0, classes=4) == pytest.approx(0.0675, rel=1e-5)


@pytest.mark.parametrize("elsewhere", [0.01, 0.5, 0.99])
def test_the_mean_is_over_sure_voxels_whatever_the_others_hold(elsewhere: float) -> None:
    unsure = everywhere(0.5, 0.5)
    student = by_halves(everywhere(0.7, 0.3), everywhere(elsewhere, 1 - elsewhere))
    method = make()
    answer_with(method, Answering(student), Answering(by_halves(everywhere(0.9, 0.1), unsure)))
    assert consistency(method, 0) == pytest.approx(0.04, rel=1e-5)
    batch = make_batch()
    output = method(batch, 0)
    assert method.health(output, batch).further["certain"] == pytest.approx(0.5)


def test_without_a_sure_voxel_the_term_is_zero_and_connected() -> None:
    method = make()
    student = Answering(everywhere(0.9, 0.1))
    answer_with(method, student, Answering(everywhere(0.5, 0.5)))
    term = method(make_batch(), 0).terms["consistency"]
    assert term.item() == 0.0
    term.backward()
    assert student.logits[0].grad is not None


def test_the_student_learns_from_one_pass_and_the_mean_of_the_others_says_where() -> None:
    target, one, two = everywhere(0.9, 0.1), everywhere(0.99, 0.01), everywhere(0.01, 0.99)
    method = make(passes=2)
    student = Answering(everywhere(0.5, 0.5))
    answer_with(method, student, Answering(target, one, one))
    assert consistency(method, 0) == pytest.approx(0.16, rel=1e-5)
    answer_with(method, student, Answering(target, one, two))  # sure both times, never the same
    assert consistency(method, 0) == 0.0


def test_every_pass_of_the_teacher_has_noise_of_its_own() -> None:
    method = make(passes=8, noise=0.05)
    student, teacher = Answering(everywhere(0.5, 0.5)), Answering(everywhere(0.9, 0.1))
    answer_with(method, student, teacher)
    batch = make_batch()
    method(batch, 0)
    assert len(student.calls) == 1
    assert torch.equal(student.calls[0], batch.first.values)
    noises = torch.stack(teacher.calls) - batch.first.values[2:]
    assert len(noises) == 9
    assert len({noise.sum().item() for noise in noises}) == 9
    assert noises.abs().max().item() == pytest.approx(0.1, rel=1e-4)


def test_padding_does_not_count() -> None:
    batch = make_batch()
    batch.first.valid[2:, ..., :8] = False
    method = make()
    answer_with(
        method,
        Answering(by_halves(everywhere(0.01, 0.99), everywhere(0.7, 0.3))),
        Answering(everywhere(0.9, 0.1)),
    )
    output = method(batch, STEPS)
    term = output.terms["consistency"].item()
    assert term == pytest.approx(0.2 * 0.04, rel=1e-5)
    assert method.health(output, batch).further["certain"] == pytest.approx(1.0)
    assert method.health(output, batch).class_fractions[0] == pytest.approx(1.0)


def test_the_student_is_pulled_to_the_teacher_who_has_no_gradient() -> None:
    method = make()
    student, teacher = Answering(everywhere(0.5, 0.5)), Answering(everywhere(0.9, 0.1))
    answer_with(method, student, teacher)
    method(make_batch(), STEPS).terms["consistency"].backward()
    gradient = student.logits[0].grad
    assert gradient is not None
    assert gradient[0, 0] < 0 < gradient[0, 1]
    assert teacher.logits[0].grad is None


@pytest.mark.parametrize("dimensions", [2, 3])
def test_where_all_is_sure_it_is_mean_teacher(dimensions: int) -> None:
    method = make(dimensions, noise=0.0).eval()
    plain = make_method("mean-teacher", dimensions, 2, STEPS, 2, noise=0.0).eval()
    assert isinstance(plain, MeanTeacher)
    batch = make_batch(dimensions)
    for each in (method, plain):
        with torch.no_grad():
            for parameter in each.teacher.parameters():
                parameter.mul_(1.2)
    found, expected = method(batch, STEPS).terms, plain(batch, STEPS).terms
    assert found["consistency"].item() > 0
    for name, term in expected.items():
        torch.testing.assert_close(found[name], term)
