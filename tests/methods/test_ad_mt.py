import math
from itertools import pairwise

import pytest
import torch
from fixed_predictions import Answering, Constant, by_halves, everywhere
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.methods import ad_mt
from tracoco.methods.ad_mt import ADMT, draw_turns, entropy_ensemble, settle_conflicts
from tracoco.methods.method import StepOutput
from tracoco.methods.parts.cutmix import Mix

PAST_THE_RAMP = 1000
FIRST, SECOND = 0, 1


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> ADMT:
    method = make_method("ad-mt", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, ADMT)
    return method


def in_turn(method: ADMT, teacher: int) -> ADMT:
    """The same method with this teacher's turn at every step."""
    method._turns = [teacher]
    return method


def teach_with(method: ADMT, *networks: nn.Module) -> None:
    for teacher, network in zip(method.teachers, networks, strict=True):
        teacher.network = network.requires_grad_(requires_grad=False)


def constant(dimensions: int = 2, teacher: int = FIRST, **settings: object) -> ADMT:
    """Teachers that are sure by 0.9 of class 0, and a student that is undecided."""
    method = in_turn(make(dimensions, 2, **settings), teacher)
    method.student = Constant(0.0, 0.0)
    teach_with(method, Constant(math.log(9), 0.0), Constant(math.log(9), 0.0))
    return method


class Copying(nn.Module):
    """A network that is sure of class 1 wherever a crop is above 1/2."""

    def forward(self, crops: Tensor) -> Tensor:
        return torch.cat([0.5 - crops, crops - 0.5], dim=1) * 1000


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # One bit and none: e^-1 / (e^-1 + 1) = 0.2689 of the first.
        ((0.5, 0.5), (1.0, 0.0), 0.2689 * 0.5 + 0.7311),
        # Two bits and none: e^-2 / (e^-2 + 1) = 0.1192 of the first.
        ((0.25,) * 4, (1.0, 0.0, 0.0, 0.0), 0.1192 * 0.25 + 0.8808),
        ((0.3, 0.7), (0.7, 0.3), 0.5),
        ((0.0, 1.0), (0.0, 1.0), 0.0),
    ],
)
def test_the_surer_teacher_counts_more(
    dimensions: int, first: tuple[float, ...], second: tuple[float, ...], expected: float
) -> None:
    pair = [everywhere(*each, dimensions=dimensions) for each in (first, second)]
    both = entropy_ensemble(pair[0], pair[1])
    assert both.shape == pair[0].shape
    assert both.flatten()[0].item() == pytest.approx(expected, abs=1e-4)
    assert both.sum().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("student", "conflict", "taken"),
    [
        ((0.1, 0.9), True, True),
        ((0.1, 0.9), False, False),  # the teachers agree
        ((0.45, 0.55), True, False),  # it is less sure than they are
        ((0.9, 0.1), True, False),  # it says the same
    ],
)
def test_the_student_settles_conflicts_if_it_is_surer_of_another_class(
    student: tuple[float, ...], *, conflict: bool, taken: bool
) -> None:
    ensemble, own = everywhere(0.6, 0.4, dimensions=2), everywhere(*student, dimensions=2)
    found = settle_conflicts(ensemble, own, torch.tensor([[[conflict]]]))
    assert torch.equal(found, own if taken else ensemble)


def test_turns_alternate_and_are_as_long_as_they_may_be() -> None:
    turns = draw_turns(5000, 19)
    assert turns[0] == 0
    ends = [step for step in range(1, 5000) if turns[step] != turns[step - 1]]
    lengths = {later - sooner for sooner, later in pairwise(ends)}
    assert lengths == set(range(1, 20))
    assert turns[:30] == draw_turns(30, 19)
    assert draw_turns(4, 1) == [0, 1, 0, 1]


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("teacher", [FIRST, SECOND])
def test_the_term_by_hand_and_its_ramp(dimensions: int, teacher: int) -> None:
    """40 % of 30 steps are 12; half a Gaussian starts at e^-5."""
    method = constant(dimensions, teacher, unsupervised_weight=2.0)
    assert method.rampup_steps == 12
    for step, ramp in [(0, math.exp(-5)), (6, math.exp(-5 / 4)), (12, 1.0), (1000, 1.0)]:
        term = method(make_batch(dimensions), step).terms["teachers"]
        assert term.item() == pytest.approx(2 * ramp * math.log(2), rel=1e-4)


def test_the_weight_is_in_the_releases_proportion() -> None:
    """There 2 beside half of the supervised loss."""
    assert make().config.unsupervised_weight == 2 / 0.5


def test_the_dice_of_four_classes_by_hand() -> None:
    """Class 0 everywhere: 1 - 2 (1/4) / (1/16 + 1); the other three are wrong wherever they are."""
    method = in_turn(make(classes=4, loss_form="dice", unsupervised_weight=1.0), FIRST)
    method.student = Constant(0.0, 0.0, 0.0, 0.0)
    teach_with(method, *(Constant(9.0, 0.0, 0.0, 0.0) for _ in range(2)))
    term = method(make_batch(2, 4), PAST_THE_RAMP).terms["teachers"]
    assert term.item() == pytest.approx((1 - 0.5 / (17 / 16) + 3) / 4, abs=1e-3)


@pytest.mark.parametrize("loss_form", ["ce", "dice"])
@pytest.mark.parametrize("teacher", [FIRST, SECOND])
def test_unsure_labels_and_padding_do_not_teach(loss_form: str, teacher: int) -> None:
    unsure = constant(teacher=teacher, threshold=0.95, loss_form=loss_form)
    padded, batch = constant(teacher=teacher, loss_form=loss_form), make_batch(2)
    batch.first.valid[2:] = False
    for method, crops in [(unsure, make_batch(2)), (padded, batch)]:
        term = method(crops, PAST_THE_RAMP).terms["teachers"]
        assert term.item() == 0.0
        term.backward()
        grad = method.student.get_parameter("logits").grad
        assert grad is not None
        assert not grad.any()


def test_only_the_voxels_that_are_sure_are_in_the_mean() -> None:
    """Sure of class 0 in one half of each crop; the student's cross-entropy there is log 4."""
    method = in_turn(make(unsupervised_weight=1.0), FIRST)
    halves = by_halves(everywhere(0.9, 0.1, dimensions=2), everywhere(0.6, 0.4, dimensions=2))
    method.student = Constant(0.0, math.log(3))
    teach_with(method, Answering(halves), Answering(halves))
    term = method(make_batch(2), PAST_THE_RAMP).terms["teachers"]
    assert term.item() == pytest.approx(math.log(4), rel=1e-4)


def test_the_student_is_pulled_to_the_label_and_no_teacher_is_moved() -> None:
    method = constant()
    method(make_batch(2), PAST_THE_RAMP).terms["teachers"].backward()
    grad = method.student.get_parameter("logits").grad
    assert grad is not None
    assert grad[0] < 0 < grad[1]
    assert all(parameter.grad is None for parameter in method.teachers.parameters())


@pytest.mark.parametrize("teacher", [FIRST, SECOND])
def test_each_turn_has_its_own_kind_of_view(teacher: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method, batch = constant(teacher=teacher), make_batch(2)
    monkeypatch.setattr(ad_mt, "strong_view", lambda crops, *_: crops + 100)
    method(batch, PAST_THE_RAMP)
    student = method.student
    assert isinstance(student, Constant)
    whole, view = student.calls
    unlabelled = batch.first.values[2:]
    assert torch.equal(whole, batch.first.values)
    if teacher == FIRST:
        assert torch.equal(view, unlabelled + 100)
        return
    own, other = view == unlabelled, view == unlabelled.flip(0)
    assert (own ^ other).all()
    assert own.any()
    assert other.any()


@pytest.mark.parametrize("padded", [False, True])
def test_conflicts_are_settled_before_labels_and_padding_are_mixed(
    *, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undecided teachers in conflict, and a student that is right about crops and mixtures."""
    method = in_turn(make(), SECOND)
    method.student = Copying()
    teach_with(method, Constant(0.1, 0.0), Constant(0.0, 0.1))
    box = torch.zeros(2, 16, 16, dtype=torch.bool)
    box[:, :8] = True
    mix = Mix(torch.tensor([1, 0]), box)
    monkeypatch.setattr(ad_mt, "draw_mix", lambda *_: mix)
    batch = make_batch(2)
    assert method(batch, PAST_THE_RAMP).terms["teachers"].item() < 0.01
    if padded:  # what a padded crop gives to the other does not count either
        teach_with(method, Constant(9.0, 0.0), Constant(9.0, 0.0))
        batch.first.values[2] = 0.1
        batch.first.values[3], batch.first.valid[3] = 0.9, False
        assert method(batch, PAST_THE_RAMP).terms["teachers"].item() < 0.01


def test_all_crops_are_passed_at_once_where_statistics_mix_them_anyway() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(1)
            self.sizes: list[int] = []

        def forward(self, crops: Tensor) -> Tensor:
            self.sizes.append(len(crops))
            return torch.cat([self.norm(crops), crops], dim=1)

    method = constant()
    method.student = Normalised()
    method(make_batch(2), 0)
    assert method.student.sizes == [6]


@pytest.mark.parametrize("teacher", [FIRST, SECOND])
def test_teachers_are_asked_as_released_or_without_dropout(teacher: int) -> None:
    class Noting(Constant):
        def forward(self, crops: Tensor) -> Tensor:
            modes.append(self.training)
            return super().forward(crops)

    modes: list[bool] = []
    for form, expected in [
        ("alternate", [teacher == FIRST, teacher == SECOND]),
        ("batch", [False, False]),
        ("clean", [False, False]),
    ]:
        method = constant(teacher=teacher, pseudo_labels=form)
        teach_with(method, Noting(1.0, 0.0), Noting(1.0, 0.0))
        modes.clear()
        method(make_batch(2), 0)
        assert modes == expected
        assert all(part.training for part in method.modules())


def weights(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def test_the_teacher_whose_turn_it_is_follows_and_the_other_stays() -> None:
    """Steps 0 to 2 copy; then half of the steps since are counted: 0, 1/2 and 2/3 are kept."""
    method = make(copy_steps=2)
    method._turns = [0, 1, 0, 0, 0, 1, 1]
    start = weights(method.student)
    expected = [0.0, 0.0]
    kept = [0.0, 0.0, 0.0, 0.0, 1 / 2, 1 / 2, 2 / 3]
    for step, fraction in enumerate(kept):
        with torch.no_grad():
            for parameter in method.student.parameters():
                parameter.add_(1.0)
        method.after_step(StepOutput({}), make_batch(2), step)
        turn = method.turn(step)
        expected[turn] = fraction * expected[turn] + (1 - fraction) * (step + 1)
        for teacher, moved in zip(method.teachers, expected, strict=True):
            assert (weights(teacher) - start).mean().item() == pytest.approx(moved, abs=1e-4)


def test_the_student_is_copied_in_as_small_a_part_of_the_run_as_in_the_release() -> None:
    long = make_method("ad-mt", 2, 2, 15_000)
    assert isinstance(long, ADMT)
    assert (long.copy_steps, long.rampup_steps) == (80, 6000)


def test_boxes_need_two_crops_and_can_be_switched_off() -> None:
    with pytest.raises(UserError, match="CutMix mixes unlabelled crops"):
        make_method("ad-mt", 2, 2, 30, 1)
    method = in_turn(make(cutmix=False), SECOND)
    assert "teachers" in method(make_batch(2, unlabelled=1), 0).terms


def test_health_tells_conflicts_and_sure_labels_and_members_are_the_teachers() -> None:
    method, batch = make(), make_batch(2, size=(4, 4))
    shape = (2, 2, 4, 4)
    first = everywhere(0.9, 0.1, dimensions=2).expand(shape)
    second = torch.cat([first[..., :2], first[..., 2:].flip(1)], dim=-1)
    both = torch.cat([first[..., :2], torch.full_like(first[..., 2:], 0.5)], dim=-1)
    health = measured(method.health(StepOutput({}, (first, second, both)), batch))
    assert health["agreement"] == pytest.approx(0.5)
    assert health["likely"] == pytest.approx(0.5)
    method = constant()
    student, one, two = method.predict_members(batch.first.values)
    assert student[0, 0, 0, 0].item() == pytest.approx(0.5)
    assert one[0, 0, 0, 0].item() == two[0, 0, 0, 0].item() == pytest.approx(0.9)
    assert method.inference_network() is method.student
