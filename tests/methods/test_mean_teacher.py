import math

import pytest
import torch
from fixed_predictions import Constant
from samples import make_batch, make_method, measured

from tracoco.methods.mean_teacher import MeanTeacher
from tracoco.methods.method import StepOutput

PAST_THE_RAMP = 1000


def make(**settings: object) -> MeanTeacher:
    method = make_method("mean-teacher", 3, 2, 30, 2, **settings)
    assert isinstance(method, MeanTeacher)
    return method


def constant(**settings: object) -> tuple[MeanTeacher, Constant, Constant]:
    """A student sure of (3/4, 1/4), a teacher of (1/2, 1/2)."""
    method = make(**settings)
    student, teacher = Constant(math.log(3), 0.0), Constant(0.0, 0.0)
    method.student, method.teacher.network = student, teacher.requires_grad_(requires_grad=False)
    return method, student, teacher


def test_the_consistency_by_hand_and_its_ramp() -> None:
    method, _, _ = constant()
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (PAST_THE_RAMP, 1.0)]:
        consistency = method(make_batch(), step).terms["consistency"].item()
        assert consistency == pytest.approx(0.2 * ramp * 0.0625, rel=1e-5)


def test_weight_and_ramp_are_settings() -> None:
    method, _, _ = constant(unsupervised_weight=2.0, rampup_steps=10)
    assert method(make_batch(), 10).terms["consistency"].item() == pytest.approx(0.125, rel=1e-5)


def test_before_the_start_the_term_is_there_and_zero() -> None:
    method, _, _ = constant(start_step=5)
    before, after = (method(make_batch(), step).terms["consistency"] for step in (4, 5))
    assert before.item() == 0.0
    assert before.requires_grad
    assert after.item() == pytest.approx(0.2 * math.exp(-5 * (25 / 30) ** 2) * 0.0625, rel=1e-5)


def test_the_student_is_pulled_to_the_teacher_who_has_no_gradient() -> None:
    method, student, teacher = constant()
    method(make_batch(), PAST_THE_RAMP).terms["consistency"].backward()
    assert student.logits.grad is not None
    assert student.logits.grad[0] > 0 > student.logits.grad[1]
    assert teacher.logits.grad is None


@pytest.mark.parametrize(("on", "count"), [("unlabelled", 2), ("all", 4)])
def test_the_teacher_sees_noisy_crops_and_the_student_clean_ones(on: str, count: int) -> None:
    method, student, teacher = constant(noise=0.05, on=on)
    batch = make_batch()
    method(batch, 0)
    assert torch.equal(student.calls[0], batch.first.values)
    noise = teacher.calls[0] - batch.first.values[-count:]
    assert noise.abs().max().item() == pytest.approx(0.1, rel=1e-4)
    assert noise.std().item() == pytest.approx(0.05 * 0.9594, rel=0.05)


def test_labelled_crops_are_compared_only_if_asked() -> None:
    batch = make_batch()
    batch.first.valid[2:] = False
    assert constant(on="unlabelled")[0](batch, 30).terms["consistency"].item() == 0.0
    assert constant(on="all")[0](batch, 30).terms["consistency"].item() > 0.0


def test_after_a_step_the_teacher_moves_and_the_optimizer_never_owns_it() -> None:
    method = make()
    owned = {id(p) for group in method.parameter_groups() for p in group["params"]}
    assert not owned & {id(p) for p in method.teacher.parameters()}
    with torch.no_grad():
        for parameter in method.student.parameters():
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in method.teacher.parameters()]
    method.after_step(StepOutput({}), make_batch(2), 1)
    pairs = zip(before, method.teacher.parameters(), strict=True)
    for old, new in pairs:
        torch.testing.assert_close(new, old + 0.5)


@pytest.mark.parametrize("predict_with", ["student", "teacher"])
def test_the_settings_say_who_predicts(predict_with: str) -> None:
    method, student, teacher = constant(predict_with=predict_with)
    expected = {"student": student, "teacher": teacher}[predict_with]
    assert method.inference_network() is expected
    assert method.teacher.copy_buffers == (predict_with == "teacher")


@pytest.mark.parametrize("on", ["unlabelled", "all"])
def test_health_compares_the_unlabelled_crops(on: str) -> None:
    method, _, _ = constant(on=on)
    batch = make_batch()
    batch.first.valid[3, :8] = False
    method.teacher.network = Constant(0.0, math.log(3)).requires_grad_(requires_grad=False)
    output = method(batch, 0)
    assert all(len(prediction) == 2 for prediction in output.pseudo_labels)
    # Foreground 1/4 against 3/4 in 4096 voxels of one crop and in 2048 of the other.
    assert measured(method.health(output, batch)) == pytest.approx(
        {
            "class/0": 0.0,
            "class/1": 1.0,
            "agreement": 0.0,
            "distance": 0.5 * (4096 + 2048) / 2,
        }
    )
