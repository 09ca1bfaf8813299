import math

import pytest
import torch
from fixed_predictions import Answering, answer_with, by_halves, everywhere
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.methods import build_method
from tracoco.methods.duwm import DUWM
from tracoco.methods.method import RunFacts
from tracoco.networks.network import Decoder, Encoder, Network, Up
from tracoco.settings import MethodChoice

STEPS = 30
UNSURE = math.exp(-1)


class Featured(Network):
    """Gives the features and the answers it is told, both as probabilities."""

    def __init__(self, features: Tensor, *predictions: Tensor) -> None:
        decoder = Decoder([], [], merge=torch.add)
        super().__init__(Encoder([]), decoder, Answering(*predictions), (features.shape[1],))
        self.features = nn.Parameter(features.log())

    def encode(self, crops: Tensor) -> list[Tensor]:
        return [crops]

    def decode(self, features: list[Tensor]) -> Tensor:
        crops = features[-1]
        return self.features.expand(len(crops), -1, *crops.shape[2:])

    def make_decoder(self, up: Up) -> Decoder:
        raise AssertionError(f"nobody asked for another decoder by {up}")


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> DUWM:
    method = make_method("duwm", dimensions, classes, STEPS, 2, **settings)
    assert isinstance(method, DUWM)
    return method


def told(dimensions: int, student: Featured, teacher: Featured, **settings: object) -> DUWM:
    method = make(dimensions, 2, **settings)
    answer_with(method, student, teacher)
    return method


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_teacher_that_knows_nothing_counts_by_one_over_e_and_a_sure_one_in_full(
    dimensions: int,
) -> None:
    alike = everywhere(*[0.25] * 4, dimensions=dimensions)
    certain = everywhere(1.0, 1e-30, 1e-30, 1e-30, dimensions=dimensions)
    crops = torch.rand(2, 1, *[16] * dimensions)
    for prediction, features, expected in [
        (alike, certain, (UNSURE, 1)),
        (certain, alike, (1, UNSURE)),
    ]:
        teacher = Featured(features, prediction)
        found = told(dimensions, Featured(features, prediction), teacher).trusts(crops)
        for trust, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(trust, torch.full_like(trust, wanted))


def test_the_terms_by_hand() -> None:
    # The answers differ by 1/4. The feature channels: (.5, .5) against (.9, .1), entropy .4690.
    student = Featured(everywhere(0.5, 0.5), everywhere(0.75, 0.25))
    teacher = Featured(everywhere(0.9, 0.1), everywhere(0.5, 0.5))
    terms = told(3, student, teacher)(make_batch(), STEPS).terms
    assert terms["consistency"].item() == pytest.approx(0.2 * UNSURE * 0.0625, rel=1e-5)
    assert terms["features"].item() == pytest.approx(0.2 * math.exp(-0.4690) * 0.16, rel=1e-4)
    # Entropy .8113 of the student's (3/4, 1/4).
    assert terms["entropy"].item() == pytest.approx(0.2 * 0.1 * 0.8113, rel=1e-4)


def test_a_sure_teacher_makes_it_mean_teacher_with_features() -> None:
    certain = everywhere(1.0, 1e-30)
    student = Featured(everywhere(0.75, 0.25), everywhere(0.5, 0.5))
    terms = told(3, student, Featured(certain, certain), feature_weight=2.0)(
        make_batch(), STEPS
    ).terms
    assert terms["consistency"].item() == pytest.approx(0.2 * 0.25, rel=1e-5)
    assert terms["features"].item() == pytest.approx(0.2 * 2 * 0.0625, rel=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_student_that_equals_its_teacher_has_no_distance(dimensions: int, classes: int) -> None:
    method = make(dimensions, classes, noise=0.0).eval()
    terms = method(make_batch(dimensions, classes), STEPS).terms
    assert terms["consistency"].item() == pytest.approx(0, abs=1e-12)
    assert terms["features"].item() == pytest.approx(0, abs=1e-12)
    assert terms["entropy"].item() > 0


def test_sure_of_something_else_at_each_pass_is_unsure() -> None:
    target, one, two = everywhere(0.9, 0.1), everywhere(1.0, 1e-30), everywhere(1e-30, 1.0)
    features = everywhere(0.5, 0.5)
    student, teacher = Featured(features, target), Featured(features, target, one, two)
    method = told(3, student, teacher, passes=2)
    batch = make_batch()
    output = method(batch, STEPS)
    assert output.terms["consistency"].item() == pytest.approx(0, abs=1e-9)
    assert method.health(output, batch).further["trust"] == pytest.approx(UNSURE, rel=1e-5)
    assert method.health(output, batch).class_fractions[0] == 1.0
    head = teacher.head
    assert isinstance(head, Answering)
    assert len(head.calls) == 3


def test_all_crops_count_and_padding_does_not() -> None:
    features = by_halves(everywhere(0.9, 0.1), everywhere(0.1, 0.9))
    prediction = by_halves(everywhere(1.0, 1e-30), everywhere(0.5, 0.5))
    teacher = Featured(everywhere(0.9, 0.1), everywhere(1.0, 1e-30))
    method = told(3, Featured(features, prediction), teacher)
    batch = make_batch()
    batch.first.valid[..., 8:] = False
    batch.first.valid[1, ..., 8:] = True  # a labelled crop, whose second half is wrong
    found = method(batch, STEPS).terms
    # A fifth of the voxels inside: answers differ by 1/2, features by .8.
    assert found["consistency"].item() == pytest.approx(0.2 * 0.25 / 5, rel=1e-4)
    assert found["features"].item() == pytest.approx(0.2 * math.exp(-0.4690) * 0.64 / 5, rel=1e-4)
    assert found["entropy"].item() == pytest.approx(0.02 / 5, rel=1e-4)
    batch.first.valid[1, ..., 8:] = False
    for name in ("consistency", "features", "entropy"):
        assert method(batch, STEPS).terms[name].item() == pytest.approx(0, abs=1e-9)


def test_gradients_pull_the_student_and_never_reach_the_teacher() -> None:
    student = Featured(everywhere(0.5, 0.5), everywhere(0.75, 0.25))
    teacher = Featured(everywhere(0.9, 0.1), everywhere(0.6, 0.4))
    method = told(3, student, teacher)
    terms = method(make_batch(), STEPS).terms
    head = student.head
    assert isinstance(head, Answering)
    parts = {"consistency": head.logits[0], "features": student.features, "entropy": head.logits[0]}
    signs = {}
    for name, part in parts.items():
        (gradient,) = torch.autograd.grad(terms[name], part, retain_graph=True)
        signs[name] = gradient.flatten().sign().tolist()
    # Down to (.6, .4); up to (.9, .1); up to certainty.
    assert signs == {"consistency": [1, -1], "features": [-1, 1], "entropy": [-1, 1]}
    torch.stack(list(terms.values())).sum().backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_the_terms_rise_along_the_run() -> None:
    student = Featured(everywhere(0.5, 0.5), everywhere(0.75, 0.25))
    method = told(3, student, Featured(everywhere(0.9, 0.1), everywhere(0.5, 0.5)))
    start, end = method(make_batch(), 0).terms, method(make_batch(), STEPS).terms
    for name in ("consistency", "features", "entropy"):
        assert start[name].item() == pytest.approx(math.exp(-5) * end[name].item(), rel=1e-4)


def test_a_network_without_feature_maps_is_refused() -> None:
    facts = RunFacts(2, 1, 2, total_steps=3, steps_per_epoch=1, unlabelled_batch=2)
    with pytest.raises(UserError, match=r"method 'duwm' needs the feature maps"):
        build_method(MethodChoice(name="duwm"), lambda: nn.Conv2d(1, 2, 1), facts)
