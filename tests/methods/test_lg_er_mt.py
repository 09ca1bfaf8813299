import math

import pytest
import torch
from fixed_predictions import Answering, answer_with, by_halves, everywhere
from samples import make_batch, make_method

from tracoco.methods.lg_er_mt import LGERMT, draw_cubes

STEPS = 30
COMPARED = ("consistency", "local", "global")


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> LGERMT:
    method = make_method("lg-er-mt", dimensions, classes, STEPS, 2, **settings)
    assert isinstance(method, LGERMT)
    return method


@pytest.mark.parametrize("dimensions", [2, 3])
def test_consistency_information_and_entropy_by_hand(dimensions: int) -> None:
    # Probabilities differ by .4; information (.5, .5) against (.1368, .3322).
    method = make(dimensions)
    student, teacher = (
        Answering(everywhere(*each, dimensions=dimensions)) for each in [(0.5, 0.5), (0.9, 0.1)]
    )
    answer_with(method, student, teacher)
    terms = method(make_batch(dimensions), STEPS).terms
    assert terms["consistency"].item() == pytest.approx(0.2 * 0.16 / 2, rel=1e-5)
    assert terms["global"].item() == pytest.approx(0.02 * 0.04002, rel=1e-3)
    assert terms["entropy"].item() == pytest.approx(0.02, rel=1e-5)
    assert terms["local"].item() == pytest.approx(0.0, abs=1e-7)  # all voxels alike in both


def test_the_local_structure_by_hand() -> None:
    # Two halves that the student tells apart, cosine .6, and the teacher does not: half of all
    # pairs are wrong by .4. The directions are (3, 1) and (1, 3).
    student = by_halves(everywhere(0.75, 0.25), everywhere(0.25, 0.75))
    method = make(cube=16)
    answer_with(method, Answering(student), Answering(everywhere(0.5, 0.5)))
    terms = method(make_batch(), STEPS).terms
    assert terms["local"].item() == pytest.approx(0.02 * 0.16 / 2, rel=1e-5)


def test_four_classes_by_hand() -> None:
    # Entropy log 2 of log 4, as information (1/4, 1/4, 0, 0); the teacher has 1/4 everywhere.
    method = make(classes=4)
    student = Answering(everywhere(0.5, 0.5, 1e-30, 1e-30))
    answer_with(method, student, Answering(everywhere(*[0.25] * 4)))
    terms = method(make_batch(classes=4), STEPS).terms
    assert terms["entropy"].item() == pytest.approx(0.01, rel=1e-5)
    assert terms["global"].item() == pytest.approx(0.02 * 2 * 0.0625 / 4 / 2, rel=1e-5)


def test_a_certain_student_that_equals_its_teacher_has_nothing_to_learn() -> None:
    method = make()
    student = Answering(by_halves(everywhere(1.0, 1e-38), everywhere(1e-38, 1.0)))
    teacher = Answering(by_halves(everywhere(1.0, 1e-38), everywhere(1e-38, 1.0)))
    answer_with(method, student, teacher)
    terms = method(make_batch(), STEPS).terms
    unsupervised = [term for name, term in terms.items() if name != "supervised"]
    assert len(unsupervised) == 4
    assert all(term.item() == pytest.approx(0, abs=1e-9) for term in unsupervised)
    torch.stack(unsupervised).sum().backward()
    assert student.logits[0].grad is not None
    assert student.logits[0].grad.isfinite().all()


def test_every_unlabelled_term_rises_along_the_run() -> None:
    method = make(cube=16)
    student = by_halves(everywhere(0.75, 0.25), everywhere(0.25, 0.75))
    answer_with(method, Answering(student), Answering(everywhere(0.5, 0.5)))
    start, end = method(make_batch(), 0).terms, method(make_batch(), STEPS).terms
    for name in (*COMPARED, "entropy"):
        assert end[name].item() > 0
        assert start[name].item() == pytest.approx(math.exp(-5) * end[name].item(), rel=1e-4)


def test_all_crops_are_compared_but_only_unlabelled_ones_make_up_their_mind() -> None:
    method = make(cube=16)
    student = by_halves(everywhere(0.75, 0.25), everywhere(0.25, 0.75))
    answer_with(method, Answering(student), Answering(everywhere(0.5, 0.5)))
    batch = make_batch()
    full = {name: term.item() for name, term in method(batch, STEPS).terms.items()}
    batch.first.valid[2:] = False
    terms = method(batch, STEPS).terms
    for name in COMPARED:
        assert terms[name].item() == pytest.approx(full[name], rel=1e-4)
    assert terms["entropy"].item() == 0.0


def test_padding_does_not_count() -> None:
    method = make(cube=16)
    wrong = by_halves(everywhere(0.5, 0.5), everywhere(1.0, 1e-30))
    answer_with(method, Answering(wrong), Answering(everywhere(1.0, 1e-30)))
    batch = make_batch()
    batch.first.valid[..., :8] = False
    terms = method(batch, STEPS).terms
    for name in (*COMPARED, "entropy"):
        assert terms[name].item() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", COMPARED)
def test_no_comparison_reaches_the_teacher(name: str) -> None:
    method = make(cube=16)
    student = Answering(by_halves(everywhere(0.75, 0.25), everywhere(0.4, 0.6)))
    teacher = Answering(by_halves(everywhere(0.9, 0.1), everywhere(0.2, 0.8)))
    answer_with(method, student, teacher)
    method(make_batch(), STEPS).terms[name].backward()
    gradient = student.logits[0].grad
    assert gradient is not None
    assert gradient.any()
    assert teacher.logits[0].grad is None


def test_cubes_lie_inside_the_crop_wherever_they_fit() -> None:
    torch.manual_seed(0)
    places = draw_cubes((20, 8, 12), side=10, count=200)
    assert len(places) == 200
    assert {place[0].stop - place[0].start for place in places} == {10}
    assert {place[0].start for place in places} == set(range(11))
    assert {(place[1].start, place[1].stop) for place in places} == {(0, 8)}
    assert {place[2].start for place in places} == {0, 1, 2}


def test_the_teacher_sees_all_crops_with_noise() -> None:
    method = make(noise=0.05)
    student, teacher = Answering(everywhere(0.5, 0.5)), Answering(everywhere(0.9, 0.1))
    answer_with(method, student, teacher)
    batch = make_batch()
    output = method(batch, 0)
    assert torch.equal(student.calls[0], batch.first.values)
    noise = teacher.calls[0] - batch.first.values
    assert noise.abs().max().item() == pytest.approx(0.1, rel=1e-4)
    assert method.health(output, batch).agreement == 1.0
