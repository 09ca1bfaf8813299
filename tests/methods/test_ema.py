import copy

import pytest
import torch
from torch import nn

from tracoco.methods.parts.student_teacher import EmaTeacher, clipped_noise, move_average


def scalar(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer


def net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Dropout(0.5))


def weight(teacher: EmaTeacher) -> float:
    return float(teacher.network.get_parameter("weight").item())


def test_the_average_warms_up_and_then_keeps_its_decay() -> None:
    student = scalar(1.0)
    teacher = EmaTeacher(student, decay=0.9)
    assert weight(teacher) == 1.0
    found = []
    for step, value in [(0, 3.0), (1, 5.0), (2, 7.0), (50, 15.0)]:
        nn.init.constant_(student.weight, value)
        teacher.update(step, student)
        found.append(weight(teacher))
    # Copy; mean of 3 and 5; 2/3 of 4 and 1/3 of 7; .9 of 5 and .1 of 15.
    assert found == pytest.approx([3.0, 4.0, 5.0, 6.0])


def test_the_decay_caps_the_warm_start() -> None:
    student = scalar(0.0)
    teacher = EmaTeacher(student, decay=0.25)
    nn.init.constant_(student.weight, 1.0)
    teacher.update(9, student)
    assert weight(teacher) == pytest.approx(0.75)


def test_a_teacher_does_not_shrink_or_follow_by_reference() -> None:
    student = scalar(2.0)
    teacher = EmaTeacher(student, decay=0.99)
    for step in range(200):
        teacher.update(step, student)
    assert weight(teacher) == pytest.approx(2.0)
    nn.init.constant_(student.weight, 9.0)
    assert weight(teacher) == pytest.approx(2.0)


def test_a_teacher_has_no_gradient_and_the_student_keeps_its_own() -> None:
    student = net()
    teacher = EmaTeacher(student, decay=0.99)
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    assert all(parameter.requires_grad for parameter in student.parameters())
    assert not teacher(torch.rand(2, 1, 3, 3, requires_grad=True)).requires_grad


def test_a_teacher_answers_in_probabilities() -> None:
    probability = EmaTeacher(net(), decay=0.99)(torch.rand(2, 1, 3, 3))
    torch.testing.assert_close(probability.sum(dim=1), torch.ones(2, 3, 3))


def test_a_teacher_follows_its_method_into_both_modes() -> None:
    method = nn.ModuleDict({"teacher": EmaTeacher(net(), decay=0.99)})
    for mode in (False, True):
        method.train(mode)
        assert {part.training for part in method["teacher"].modules()} == {mode}


def test_buffers_are_the_teachers_own_unless_copied() -> None:
    student = net()
    own, copied = EmaTeacher(student, decay=0.9), EmaTeacher(student, decay=0.9, copy_buffers=True)
    student(5 + torch.rand(4, 1, 3, 3))
    for teacher in (own, copied):
        teacher.update(3, student)
    statistics = student.get_buffer("1.running_mean")
    assert statistics.any()
    assert torch.equal(copied.network.get_buffer("1.running_mean"), statistics)
    assert torch.equal(copied.network.get_buffer("1.num_batches_tracked"), torch.tensor(1))
    assert not own.network.get_buffer("1.running_mean").any()


def test_saved_and_loaded_a_teacher_is_the_same() -> None:
    student = net()
    teacher, other = EmaTeacher(student, decay=0.9), EmaTeacher(net(), decay=0.9)
    teacher(torch.rand(4, 1, 3, 3))
    other.load_state_dict(copy.deepcopy(teacher.state_dict()))
    crops = torch.rand(2, 1, 3, 3)
    assert torch.equal(teacher.eval()(crops), other.eval()(crops))


def test_noise_is_normal_and_cut_off_at_twice_its_deviation() -> None:
    torch.manual_seed(0)
    noise = clipped_noise(torch.zeros(100_000), 0.1)
    assert noise.abs().max().item() == pytest.approx(0.2)
    # A normal variable cut off at two deviations has 0.9594 of its deviation.
    assert noise.std().item() == pytest.approx(0.09594, abs=0.001)
    assert abs(noise.mean().item()) < 0.001
    crops = torch.rand(3)
    assert clipped_noise(crops, 0.0) is crops


def test_without_a_warm_start_the_decay_holds_from_the_first_step() -> None:
    student = scalar(1.0)
    teacher = EmaTeacher(student, decay=0.75, warms_up=False)
    nn.init.constant_(student.weight, 5.0)
    teacher.update(0, student)
    assert weight(teacher) == pytest.approx(2.0)


def test_a_teacher_can_start_anew_as_the_student_with_its_statistics() -> None:
    student = net()
    teacher = EmaTeacher(student, decay=0.99)
    student(torch.rand(4, 1, 3, 3))
    nn.init.constant_(student.get_parameter("0.weight"), 7.0)
    teacher.become(student)
    for name, value in student.state_dict().items():
        assert torch.equal(teacher.network.state_dict()[name], value)
    nn.init.constant_(student.get_parameter("0.weight"), 8.0)
    assert (teacher.network.get_parameter("0.weight") == 7).all()


@pytest.mark.parametrize("statistics", [False, True])
def test_an_average_may_take_in_the_statistics_of_batchnorm(*, statistics: bool) -> None:
    average, newest = net(), net()
    newest[1].running_mean.fill_(8.0)  # type: ignore[operator]  # a BatchNorm
    move_average(average, newest, 0.75, statistics=statistics)
    expected = 2.0 if statistics else 0.0
    assert average.get_buffer("1.running_mean").tolist() == [expected] * 2
