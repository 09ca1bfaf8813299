import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from fixed_predictions import Constant
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.losses.supervised import supervised_loss
from tracoco.methods import bcp
from tracoco.methods.bcp import BCP, Known, draw_box
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import StepOutput
from tracoco.testing.steps import after_steps

SECOND_STAGE = 20


class Copying(nn.Module):
    """A network that is sure of class 1 wherever a crop is above 1/2."""

    def forward(self, crops: Tensor) -> Tensor:
        return torch.cat([0.5 - crops, crops - 0.5], dim=1) * 1000


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> BCP:
    method = make_method("bcp", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, BCP)
    return method


def constant(dimensions: int = 3, **settings: object) -> tuple[BCP, Constant, Constant]:
    """A student sure of (3/4, 1/4), a teacher that takes all for foreground."""
    method = make(dimensions, 2, **settings)
    student, teacher = Constant(math.log(3), 0.0), Constant(0.0, 1.0)
    method.student, method.teacher.network = student, teacher.requires_grad_(requires_grad=False)
    return method, student, teacher


def fixed_box(monkeypatch: pytest.MonkeyPatch, box: Tensor) -> None:
    monkeypatch.setattr(bcp, "draw_box", lambda size, fraction: box)  # noqa: ARG005 - as called


def half_box(*size: int) -> Tensor:
    box = torch.zeros(size, dtype=torch.bool)
    box[: size[0] // 2] = True
    return box


@pytest.mark.parametrize(("size", "count"), [((6, 6), 16), ((6, 9, 12), 4 * 6 * 8)])
def test_the_box_is_two_thirds_long_and_lies_anywhere(size: tuple[int, ...], count: int) -> None:
    torch.manual_seed(0)
    boxes = [draw_box(size, 2 / 3) for _ in range(60)]
    assert all(box.sum() == count for box in boxes)
    starts = {int(box.nonzero()[0, 0]) for box in boxes}
    assert starts == {0, 1, 2}


def test_what_is_pasted_comes_with_its_label_and_its_padding() -> None:
    box = torch.tensor([[True, False]])
    ground = Known(torch.zeros(1, 1, 1, 2), torch.tensor([[[0, 1]]]), torch.tensor([[[True] * 2]]))
    other = Known(torch.ones(1, 1, 1, 2), torch.tensor([[[2, 3]]]), torch.tensor([[[False] * 2]]))
    mixed = ground.paste(other, box)
    assert mixed.crops.tolist() == [[[[1.0, 0.0]]]]
    assert mixed.labels.tolist() == [[[2, 1]]]
    assert mixed.valid.tolist() == [[[False, True]]]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_half_of_the_mixes_are_labelled_around_the_box_and_half_within(
    dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, student, teacher = constant(dimensions)
    box = half_box(*(16,) * dimensions)
    fixed_box(monkeypatch, box)
    batch = make_batch(dimensions)
    method(batch, SECOND_STAGE)
    crops = batch.first.values
    # One pass each: BatchNorm sees the two kinds of mixes apart, and the halves of the others.
    first, second = student.calls
    assert torch.equal(first, torch.where(box, crops[2:3], crops[:1]))
    assert torch.equal(second, torch.where(box, crops[1:2], crops[3:]))
    assert [len(call) for call in teacher.calls] == [1, 1]
    assert torch.equal(torch.cat(teacher.calls), crops[2:])


def test_both_terms_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are all background and pseudo-labels all foreground, at 3/4 to 1/4."""
    method, _, _ = constant(2, largest_component=False)
    fixed_box(monkeypatch, half_box(16, 16))
    batch = make_batch(2)
    batch = replace(batch, labels=torch.zeros_like(batch.labels))
    terms = method(batch, SECOND_STAGE).terms
    # Dice of an absent class is 0; of the foreground 2 (1/4) / (1/16 + 1).
    labelled = math.log(4 / 3) + 1
    guessed = math.log(4) + 1 - 0.5 / (17 / 16)
    assert terms["supervised"].item() == pytest.approx(2 * labelled, abs=1e-3)
    assert terms["copy_paste"].item() == pytest.approx(guessed, abs=1e-3)


def test_the_weight_of_pseudo_labels_is_a_setting() -> None:
    torch.manual_seed(0)
    whole = constant(2, unsupervised_weight=1.0)[0](make_batch(2), SECOND_STAGE).terms
    torch.manual_seed(0)
    half = constant(2)[0](make_batch(2), SECOND_STAGE).terms
    torch.testing.assert_close(half["copy_paste"], whole["copy_paste"] / 2)


def test_the_parts_of_a_mix_that_are_padding_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    method, _, _ = constant(2)
    box = half_box(16, 16)
    fixed_box(monkeypatch, box)
    batch = make_batch(2)
    batch.first.valid[2:] = False  # of the unlabelled crops nothing is scan
    terms = method(batch, SECOND_STAGE).terms
    assert terms["copy_paste"].item() == 0.0
    logits = torch.tensor([math.log(3), 0.0]).reshape(1, 2, 1, 1).expand(1, 2, 16, 16)
    around = supervised_loss(logits, batch.labels[:1], ~box[None])
    within = supervised_loss(logits, batch.labels[1:], box[None])
    torch.testing.assert_close(terms["supervised"], around + within)


def test_pseudo_labels_are_the_largest_components_without_padding() -> None:
    method = make(2)
    method.teacher.network = Copying()
    crops = torch.zeros(1, 1, 8, 8)
    crops[..., :2, :4] = 1  # eight pixels, six of which are padding
    crops[..., 6:, 6:] = 1  # four
    crops[..., 5, 0] = 1
    valid = torch.ones(1, 8, 8, dtype=torch.bool)
    valid[:, :2, :3] = False
    found, labels = method.pseudo_labels(crops, valid)
    assert labels.nonzero().tolist() == [[0, 6, 6], [0, 6, 7], [0, 7, 6], [0, 7, 7]]
    batch = make_batch(2, unlabelled=1, size=(8, 8))
    batch.first.valid[2:] = valid
    health = method.health(StepOutput({}, (found, labels)), batch)
    assert measured(health) == pytest.approx(
        {"class/0": 54 / 58, "class/1": 4 / 58, "largest_component": 4 / 7}
    )


def test_structures_of_several_parts_can_be_kept_whole() -> None:
    method = make(2, largest_component=False)
    method.teacher.network = Copying()
    crops = torch.zeros(1, 1, 8, 8)
    crops[..., 0, 0] = crops[..., 6:, 6:] = 1
    _, labels = method.pseudo_labels(crops, torch.ones(1, 8, 8, dtype=torch.bool))
    assert labels.sum() == 5


def test_at_first_labelled_crops_are_pasted_into_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method, student, teacher = constant(2)
    box = half_box(16, 16)
    fixed_box(monkeypatch, box)
    batch = make_batch(2)
    output = method(batch, method.pretrain_steps - 1)
    terms = output.terms
    crops, labels = batch.first.values, batch.labels
    assert torch.equal(student.calls[0], torch.where(box, crops[1:2], crops[:1]))
    assert not teacher.calls
    logits = torch.tensor([math.log(3), 0.0]).reshape(1, 2, 1, 1).expand(1, 2, 16, 16)
    everywhere = torch.ones(1, 16, 16, dtype=torch.bool)
    mixed = torch.where(box, labels[1:], labels[:1])
    assert list(terms) == ["supervised"]
    torch.testing.assert_close(terms["supervised"], supervised_loss(logits, mixed, everywhere))
    assert method.health(output, batch) == PseudoLabelHealth()


@pytest.mark.parametrize(("labelled", "unlabelled"), [(1, 1), (1, 3), (3, 1), (4, 2), (3, 3)])
def test_any_numbers_of_crops_can_be_paired(labelled: int, unlabelled: int) -> None:
    method, student, _ = constant(2)
    batch = make_batch(2, labelled=labelled, unlabelled=unlabelled)
    for step in (0, SECOND_STAGE):
        assert all(term.isfinite() for term in method(batch, step).terms.values())
    first, *second = map(len, student.calls)
    assert first == (labelled + 1) // 2
    count = max(2, labelled, unlabelled)
    assert second == [count // 2, count - count // 2]


def test_both_parts_of_a_mix_teach_the_student_and_none_the_teacher() -> None:
    method, student, teacher = constant(3)
    method(make_batch(), SECOND_STAGE).terms["copy_paste"].backward()
    assert student.logits.grad is not None
    assert student.logits.grad[0] > 0 > student.logits.grad[1]  # pulled to the teacher's class
    assert teacher.logits.grad is None


def weights(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def test_the_teacher_starts_as_the_student_at_the_end_of_the_first_stage() -> None:
    method = make(pretrain=0.1)
    assert method.pretrain_steps == 3
    start = weights(method.teacher)
    for step in range(5):
        with torch.no_grad():
            for parameter in method.student.parameters():
                parameter.add_(1.0)
        method.after_step(StepOutput({}), make_batch(2), step)
        moved = weights(method.teacher) - start
        expected = {0: 0.0, 1: 0.0, 2: 3.0, 3: 3.01, 4: 0.99 * 3.01 + 0.01 * 5}[step]
        torch.testing.assert_close(moved, torch.full_like(moved, expected), atol=1e-4, rtol=0)


def test_without_a_first_stage_the_teacher_averages_from_the_first_step() -> None:
    method = make(pretrain=0)
    start = weights(method.teacher)
    with torch.no_grad():
        for parameter in method.student.parameters():
            parameter.add_(1.0)
    method.after_step(StepOutput({}), make_batch(2), 0)
    torch.testing.assert_close(weights(method.teacher), start + 0.01, atol=1e-5, rtol=0)
    assert "copy_paste" in method(make_batch(), 0).terms


@pytest.mark.parametrize("saved_at", [2, 3, 4])
def test_saved_around_the_second_stage_a_run_goes_on_alike(saved_at: int) -> None:
    """The second stage starts behind step 2."""
    found = []
    for save in (None, saved_at):
        method = after_steps(partial(make, 2, pretrain=0.1), range(6), save)
        found.append(torch.cat([weights(method.student), weights(method.teacher)]))
    assert torch.equal(*found)
