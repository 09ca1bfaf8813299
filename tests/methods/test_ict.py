import pytest
import torch
from fixed_predictions import Answering, answer_with, everywhere
from samples import make_batch, make_method
from torch import Tensor

from tracoco.errors import UserError
from tracoco.methods import ict
from tracoco.methods.ict import ICT, blend, draw_fractions, halves

STEPS = 30


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> ICT:
    method = make_method("ict", dimensions, classes, STEPS, 2, **settings)
    assert isinstance(method, ICT)
    return method


def fix_fraction(monkeypatch: pytest.MonkeyPatch, fraction: float) -> None:
    monkeypatch.setattr(
        ict, "draw_fractions", lambda count, _: torch.full((count - count // 2,), fraction)
    )


def unlike(dimensions: int = 3) -> Tensor:
    """The first unlabelled crop is (1, 0) everywhere, the second (0, 1)."""
    first, second = (1.0, 1e-30), (1e-30, 1.0)
    return torch.cat([everywhere(*each, dimensions=dimensions) for each in (first, second)])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_consistency_by_hand(monkeypatch: pytest.MonkeyPatch, dimensions: int) -> None:
    # The target is 3/4 (1, 0) + 1/4 (0, 1); the student says (1/2, 1/2).
    fix_fraction(monkeypatch, 0.25)
    method = make(dimensions)
    student = Answering(everywhere(0.5, 0.5, dimensions=dimensions))
    answer_with(method, student, Answering(unlike(dimensions)))
    term = method(make_batch(dimensions), STEPS).terms["consistency"]
    assert term.item() == pytest.approx(0.2 * 0.0625, rel=1e-5)


@pytest.mark.parametrize(("fraction", "chosen"), [(0.0, 2), (1.0, 3)])
def test_at_the_ends_a_blend_is_one_crop_and_its_answer(
    monkeypatch: pytest.MonkeyPatch, fraction: float, chosen: int
) -> None:
    fix_fraction(monkeypatch, fraction)
    method = make()
    student = Answering(everywhere(0.5, 0.5))
    answer_with(method, student, Answering(unlike()))
    batch = make_batch()
    output = method(batch, 0)
    assert torch.equal(student.calls[0], batch.first.values[[0, 1, chosen]])
    expected = everywhere(*{2: (1.0, 0.0), 3: (0.0, 1.0)}[chosen]).expand(1, 2, 16, 16, 16)
    torch.testing.assert_close(output.pseudo_labels[1], expected)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_who_answers_all_alike_agrees_with_the_teacher(
    monkeypatch: pytest.MonkeyPatch, fraction: float
) -> None:
    fix_fraction(monkeypatch, fraction)
    method = make(classes=4)
    prediction = everywhere(0.4, 0.3, 0.2, 0.1)
    answer_with(method, Answering(prediction), Answering(prediction))
    assert method(make_batch(classes=4), STEPS).terms["consistency"].item() == pytest.approx(
        0, abs=1e-9
    )


def test_half_and_half_does_not_ask_which_crop_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_fraction(monkeypatch, 0.5)
    method = make().eval()
    with torch.no_grad():
        for parameter in method.teacher.parameters():
            parameter.mul_(1.2)
    batch = make_batch()
    found = [method(batch, STEPS).terms["consistency"].item()]
    batch.first.values[2:] = batch.first.values[2:].flip(0)
    found.append(method(batch, STEPS).terms["consistency"].item())
    assert found[0] > 0
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_voxel_counts_where_both_crops_are_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_fraction(monkeypatch, 0.25)
    batch = make_batch()
    batch.first.valid[2, :8] = False
    batch.first.valid[3, :, 8:] = False
    wrong = torch.full((1, 2, 16, 16, 16), 0.5)
    wrong[:, 0, 8:, :8], wrong[:, 1, 8:, :8] = 0.75, 0.25  # right wherever it counts
    method = make()
    answer_with(method, Answering(wrong), Answering(unlike()))
    output = method(batch, STEPS)
    assert output.terms["consistency"].item() == pytest.approx(0, abs=1e-9)
    assert method.health(output, batch).distance == pytest.approx(0, abs=1e-3)
    batch.first.valid[2, 0] = True
    assert method(batch, STEPS).terms["consistency"].item() > 1e-4


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_every_crop_has_a_partner_and_none_is_its_own(count: int) -> None:
    first, second = halves(torch.arange(count))
    assert len(first) == len(second) == len(draw_fractions(count, 0.2)) == (count + 1) // 2
    assert not (first == second).any()
    assert set(torch.cat([first, second]).tolist()) == set(range(count))


def test_blends_go_by_pair() -> None:
    crops = torch.tensor([1.0, 2.0, 5.0, 6.0]).reshape(4, 1, 1, 1)
    # 1 + 1/4 (5 - 1) and 2 + 1/2 (6 - 2).
    assert blend(crops, torch.tensor([0.25, 0.5])).flatten().tolist() == [2.0, 4.0]


def test_shares_are_mostly_near_the_ends_and_come_from_torchs_generator() -> None:
    torch.manual_seed(3)
    fractions = draw_fractions(20_000, 0.2)
    assert fractions.mean().item() == pytest.approx(0.5, abs=0.01)
    # The variance of Beta(a, a) is 1 / (4 (2a + 1)).
    assert fractions.var().item() == pytest.approx(1 / (4 * 1.4), abs=0.005)
    torch.manual_seed(3)
    assert torch.equal(draw_fractions(20_000, 0.2), fractions)


def test_the_student_is_pulled_to_the_teacher_who_has_no_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fix_fraction(monkeypatch, 0.25)
    method = make()
    student, teacher = Answering(everywhere(0.5, 0.5)), Answering(unlike())
    answer_with(method, student, teacher)
    method(make_batch(), STEPS).terms["consistency"].backward()
    gradient = student.logits[0].grad
    assert gradient is not None
    assert gradient[0, 0] < 0 < gradient[0, 1]
    assert teacher.logits[0].grad is None


def test_an_odd_batch_works() -> None:
    method = make_method("ict", unlabelled_batch=3)
    terms = method(make_batch(unlabelled=3), STEPS).terms
    assert terms["consistency"].isfinite()


def test_one_unlabelled_crop_is_refused() -> None:
    with pytest.raises(UserError, match=r"data\.unlabelled_batch to 2 or more"):
        make_method("ict", unlabelled_batch=1)
