import math
from dataclasses import replace

import pytest
import torch
from fixed_predictions import Constant
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.losses.supervised import supervised_loss
from tracoco.methods import bcp
from tracoco.methods.method import StepOutput
from tracoco.methods.sdcl import SDCL, correct_loss, erase_loss

SECOND_STAGE = 20


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> SDCL:
    method = make_method("sdcl", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, SDCL)
    return method


def constant(dimensions: int = 2, **settings: object) -> tuple[SDCL, Constant, Constant]:
    """Students at (3/4, 1/4) and (1/4, 3/4), and a teacher that takes all for foreground."""
    method = make(dimensions, 2, largest_component=False, **settings)
    first, second = Constant(math.log(3), 0.0), Constant(0.0, math.log(3))
    method.student, method.second = first, second
    method.teacher.network = Constant(0.0, 1.0).requires_grad_(requires_grad=False)
    return method, first, second


def halved(monkeypatch: pytest.MonkeyPatch, dimensions: int = 2) -> Tensor:
    """A box that is one half of each crop."""
    box = torch.zeros((16,) * dimensions, dtype=torch.bool)
    box[:8] = True
    monkeypatch.setattr(bcp, "draw_box", lambda *_: box)
    return box


def logits_of(*probabilities: float, dimensions: int = 2) -> Tensor:
    values = torch.tensor(probabilities).log().reshape(1, -1, *[1] * dimensions)
    return values.expand(1, -1, *[4] * dimensions).clone().requires_grad_()


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(
    ("probabilities", "label", "correct", "erase"),
    [
        # (1/4)^2 and (1/4)^2, their mean; not wrong.
        ((0.75, 0.25), 0, 1 / 16, 0.0),
        # (3/4)^2 twice; -(log 3/4 + log 1/4) / 2 - log 2.
        ((0.75, 0.25), 1, 9 / 16, -(math.log(3 / 16)) / 2 - math.log(2)),
        ((0.5, 0.5), 1, 1 / 4, 0.0),  # wrong, but not more certain than it should be
        # 0.7^2 + 3 * 0.1^2 with 0.9^2 in place of one; -(log 0.7 + 3 log 0.1) / 4 - log 4.
        (
            (0.7, 0.1, 0.1, 0.1),
            2,
            (0.49 + 0.81 + 0.02) / 4,
            -(math.log(0.7) + 3 * math.log(0.1)) / 4 - math.log(4),
        ),
    ],
)
def test_both_losses_by_hand(
    dimensions: int, probabilities: tuple[float, ...], label: int, correct: float, erase: float
) -> None:
    logits = logits_of(*probabilities, dimensions=dimensions)
    shape = (1, *[4] * dimensions)
    labels, ones = torch.full(shape, label), torch.ones(shape)
    where = torch.ones(shape, dtype=torch.bool)
    for weight in (1.0, 0.5):
        found = correct_loss(logits, labels, weight * ones, where)
        assert found.item() == pytest.approx(weight * correct, abs=1e-5)
        found = erase_loss(logits, labels, weight * ones, where)
        assert found.item() == pytest.approx(weight * erase, abs=1e-5)


def test_means_are_over_the_voxels_that_count() -> None:
    """Of three voxels that count one is right, one wrong and one wrong by a pseudo-label."""
    logits = logits_of(0.75, 0.25)[..., :1, :4]
    labels = torch.tensor([[[0, 1, 1, 1]]])
    weight = torch.tensor([[[1.0, 1.0, 0.5, 1.0]]])
    where = torch.tensor([[[True, True, True, False]]])
    wrong = -math.log(3 / 16) / 2 - math.log(2)
    found = correct_loss(logits, labels, weight, where)
    assert found.item() == pytest.approx((1 / 16 + 9 / 16 + 9 / 32) / 3, abs=1e-6)
    found = erase_loss(logits, labels, weight, where)
    assert found.item() == pytest.approx(wrong * 1.5 / 2, abs=1e-6)


def test_the_gradients_correct_and_erase() -> None:
    labels, ones = torch.ones(1, 4, 4, dtype=torch.long), torch.ones(1, 4, 4)
    for loss in (correct_loss, erase_loss):
        logits = logits_of(0.75, 0.25)
        loss(logits, labels, ones, ones.bool()).backward()
        assert logits.grad is not None
        assert (logits.grad[:, 0] > 0).all()  # away from the wrong class
        assert (logits.grad[:, 1] < 0).all()
    logits = logits_of(0.6, 0.3, 0.1)
    erase_loss(logits, labels, ones, ones.bool()).backward()
    assert logits.grad is not None
    # p - 1/3 of each class: equally likely ones are wanted, not the right one.
    expected = torch.tensor([0.6, 0.3, 0.1]) - 1 / 3
    torch.testing.assert_close(16 * logits.grad[0, :, 0, 0], expected)


@pytest.mark.parametrize("loss", [correct_loss, erase_loss])
def test_without_voxels_losses_are_zero_and_connected(loss: object) -> None:
    assert callable(loss)
    logits, labels = logits_of(0.75, 0.25), torch.ones(1, 4, 4, dtype=torch.long)
    found = loss(logits, labels, torch.ones(1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool))
    found.backward()
    assert found.item() == 0.0
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_terms_of_a_step_by_hand(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are all background and pseudo-labels all foreground; each half has both."""
    halved(monkeypatch, dimensions)
    method, _, _ = constant(dimensions)
    batch = make_batch(dimensions)
    batch = replace(batch, labels=torch.zeros_like(batch.labels))
    terms = method(batch, SECOND_STAGE).terms
    # The first is right by 1/4 where the second is wrong by 3/4, and the other way round.
    per_half = (1 / 16 + 0.5 * 9 / 16) / 2 + (9 / 16 + 0.5 * 1 / 16) / 2
    assert terms["correct"].item() == pytest.approx(2 * per_half, abs=1e-5)
    # The first is wrong about pseudo-labels, which count half, and the second about labels.
    wrong = -math.log(3 / 16) / 2 - math.log(2)
    assert terms["erase"].item() == pytest.approx(0.1 * 2 * 1.5 * wrong, abs=1e-5)
    # Cross-entropy and Dice as in `bcp`, of both students and both halves.
    right, missed = math.log(4 / 3), math.log(4)
    found_right, found_missed = 1 - 1.5 / (25 / 16), 1 - 0.5 / (17 / 16)
    assert terms["supervised"].item() == pytest.approx(2 * (right + missed + 2), abs=1e-3)
    guessed = right + missed + found_right + found_missed
    assert terms["copy_paste"].item() == pytest.approx(0.5 * 2 * guessed, abs=1e-3)


def test_the_weights_are_in_the_releases_proportion() -> None:
    """There 0.5 and 0.05, beside half of the supervised loss."""
    config = make().config
    assert (config.correct_weight, config.erase_weight) == (0.5 / 0.5, 0.05 / 0.5)


def test_where_students_agree_nothing_is_corrected() -> None:
    method, _, _ = constant()
    method.second = Constant(1.0, 0.0)
    terms = method(make_batch(2), SECOND_STAGE).terms
    assert terms["correct"].item() == terms["erase"].item() == 0.0


def test_weights_are_settings() -> None:
    torch.manual_seed(0)
    plain = constant()[0](make_batch(2), SECOND_STAGE).terms
    torch.manual_seed(0)
    other = constant(correct_weight=2.0, erase_weight=0.4)[0](make_batch(2), SECOND_STAGE).terms
    torch.testing.assert_close(other["correct"], 2 * plain["correct"])
    torch.testing.assert_close(other["erase"], 4 * plain["erase"])


def test_padding_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the unlabelled crops is scan: each half is its labelled part alone."""
    halved(monkeypatch)
    method, _, _ = constant()
    batch = make_batch(2)
    batch = replace(batch, labels=torch.zeros_like(batch.labels))
    batch.first.valid[2:] = False
    terms = method(batch, SECOND_STAGE).terms
    assert terms["correct"].item() == pytest.approx(2 * (1 / 16 + 9 / 16), abs=1e-5)
    batch.first.valid[:] = False
    terms = method(batch, SECOND_STAGE).terms
    assert terms["correct"].item() == terms["erase"].item() == 0.0


def test_both_students_see_the_same_mixtures_and_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    box = halved(monkeypatch)
    method, first, second = constant()
    batch = make_batch(2)
    terms = method(batch, SECOND_STAGE).terms
    crops = batch.first.values
    assert torch.equal(first.calls[0], second.calls[0])
    assert torch.equal(first.calls[0][0], torch.where(box, crops[2], crops[0]))
    (terms["correct"] + terms["erase"]).backward()
    assert first.logits.grad is not None
    assert second.logits.grad is not None
    assert first.logits.grad.any()
    assert second.logits.grad.any()
    assert all(parameter.grad is None for parameter in method.teacher.parameters())


def test_at_first_both_learn_from_labels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    box = halved(monkeypatch)
    method, first, second = constant()
    batch = make_batch(2)
    terms = method(batch, method.pretrain_steps - 1).terms
    mixed = torch.where(box, batch.labels[1:], batch.labels[:1])
    losses = [
        supervised_loss(each.logits.reshape(1, 2, 1, 1).expand(1, 2, 16, 16), mixed)
        for each in (first, second)
    ]
    assert list(terms) == ["supervised"]
    torch.testing.assert_close(terms["supervised"], losses[0] + losses[1])


def weights(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def test_the_teacher_is_the_average_of_the_first_student_which_predicts() -> None:
    method = make(pretrain=0)
    start, second = weights(method.teacher), weights(method.second)
    nn.utils.vector_to_parameters(start + 1, method.student.parameters())
    method.after_step(StepOutput({}), make_batch(2), 0)
    torch.testing.assert_close(weights(method.teacher), start + 0.01, atol=1e-5, rtol=0)
    assert torch.equal(weights(method.second), second)
    assert method.inference_network() is method.student
    method, _, _ = constant()
    members = method.predict_members(make_batch(2).first.values)
    assert [each[0, 0, 0, 0].item() for each in members] == pytest.approx([0.75, 0.25])
    assert method.trained_networks() == [method.student, method.second]


def test_students_begin_with_weights_of_their_own_and_the_second_can_be_another_network() -> None:
    method = make()
    assert not torch.equal(weights(method.student), weights(method.second))
    other = make(second="unet")
    assert type(other.second) is not type(other.student)
    batch = make_batch(2, labelled=4, unlabelled=4)  # BatchNorm needs two crops in each half
    assert len(other(batch, SECOND_STAGE).terms) == 4
    with pytest.raises(UserError, match=r"method\.second: network 'vnett'"):
        make(second="vnett")
