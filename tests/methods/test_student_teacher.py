import copy
from functools import partial

import pytest
import torch
from samples import make_batch, make_method

from tracoco.methods import build_method
from tracoco.methods.method import RunFacts
from tracoco.methods.parts.student_teacher import StudentTeacher
from tracoco.networks import build_network
from tracoco.settings import MethodChoice

FAMILY = ["mean-teacher", "ua-mt", "ict", "lg-er-mt", "duwm", "ac-mt"]


def make(name: str, **settings: object) -> tuple[StudentTeacher, torch.optim.Optimizer]:
    method = make_method(name, 2, 2, 30, 2, **settings)
    assert isinstance(method, StudentTeacher)
    groups = method.parameter_groups()
    return method, torch.optim.SGD(groups, lr=0.05, momentum=0.9)


def go(method: StudentTeacher, optimizer: torch.optim.Optimizer, steps: range) -> list[float]:
    losses = []
    for step in steps:
        torch.manual_seed(step)
        optimizer.zero_grad()
        batch = make_batch(2, seed=step)
        output = method(batch, step)
        loss = torch.stack(list(output.terms.values())).sum()
        loss.backward()
        optimizer.step()
        method.after_step(output, batch, step)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", FAMILY)
def test_a_run_that_was_saved_and_loaded_goes_on_as_if_never_stopped(name: str) -> None:
    method, optimizer = make(name)
    go(method, optimizer, range(25, 27))
    saved = copy.deepcopy((method.state_dict(), optimizer.state_dict()))
    expected = go(method, optimizer, range(27, 29))
    other, other_optimizer = make(name)
    other.load_state_dict(saved[0])
    other_optimizer.load_state_dict(saved[1])
    assert go(other, other_optimizer, range(27, 29)) == expected
    for found, wanted in zip(other.parameters(), method.parameters(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("name", FAMILY)
def test_the_teacher_follows_the_student_by_its_decay(name: str) -> None:
    method, optimizer = make(name, decay=0.75)
    before = [parameter.clone() for parameter in method.teacher.parameters()]
    go(method, optimizer, range(25, 26))
    weights = zip(before, method.teacher.parameters(), method.student.parameters(), strict=True)
    for old, new, student in weights:
        torch.testing.assert_close(new, 0.75 * old + 0.25 * student)


@pytest.mark.parametrize("name", FAMILY)
def test_the_teacher_predicts_if_asked_and_the_student_else(name: str) -> None:
    assert (method := make(name)[0]).inference_network() is method.student
    method = make(name, predict_with="teacher")[0]
    assert method.inference_network() is method.teacher.network
    assert method.teacher.copy_buffers


@pytest.mark.parametrize("name", FAMILY)
def test_health_compares_student_and_teacher(name: str) -> None:
    method = make(name)[0]
    batch = make_batch(2)
    output = method(batch, 0)
    health = method.health(output, batch)
    assert sum(health.class_fractions) == pytest.approx(1)
    assert health.agreement is not None
    assert health.distance is not None
    assert 0 <= health.agreement <= 1
    assert health.distance > 0


def test_noise_is_a_fraction_of_the_intensity_range() -> None:
    facts = RunFacts(2, 1, 2, 30, 1, unlabelled_batch=2, intensity_range=50.0)
    network = partial(build_network, "light-unet", channels=1, classes=2, dimensions=2, filters=4)
    method = build_method(MethodChoice(name="mean-teacher"), network, facts)
    assert isinstance(method, StudentTeacher)
    noise = method.noisy(torch.zeros(2, 1, 64, 64))
    assert noise.abs().max().item() == pytest.approx(2 * method.config.noise * 50)
