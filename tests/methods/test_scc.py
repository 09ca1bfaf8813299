import math

import pytest
import torch
from fixed_decoders import Told
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.losses.supervised import supervised_loss
from tracoco.methods.parts.decoders import MeanOfDecoders
from tracoco.methods.scc import SCC

PAST_THE_RAMP = 1000


class Named(nn.Module):
    """A projector whose vectors are each class's mean logit at the class's own place."""

    def forward(self, logits: Tensor, _: Tensor) -> Tensor:
        return torch.diag_embed(logits.flatten(2).mean(dim=2))


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> SCC:
    method = make_method("scc", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, SCC)
    return method


def told(**settings: object) -> SCC:
    method = make(**settings)  # type: ignore[arg-type]  # any setting
    method.decoders = Told((0.3, 0.7), (0.8, 0.2))  # type: ignore[assignment]  # a stand-in
    method.projector = Named()  # type: ignore[assignment]  # a stand-in
    return method


def test_the_contrast_of_vectors_that_name_their_class_and_its_ramp() -> None:
    method = told()
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0), (PAST_THE_RAMP, 1.0)]:
        assert method(make_batch(), step).terms["contrast"].item() == pytest.approx(
            -2 * ramp, rel=1e-5
        )


def test_weight_ramp_and_temperature_are_settings() -> None:
    method = told(contrast_weight=3.0, rampup_steps=1, temperature=2.0)
    assert method(make_batch(), 1).terms["contrast"].item() == pytest.approx(-3.0)


def test_the_supervised_loss_is_the_mean_of_the_decoders() -> None:
    method, batch = told(), make_batch()
    alone = [
        supervised_loss(logits[:2], batch.labels, batch.first.valid[:2]).item()
        for logits in method.decoders(batch.first.values)
    ]
    assert method(batch, 0).terms["supervised"].item() == pytest.approx(sum(alone) / 2)


@pytest.mark.parametrize(("dimensions", "classes"), [(2, 4), (3, 2)])
def test_the_contrast_teaches_both_decoders_and_not_the_projector(
    dimensions: int, classes: int
) -> None:
    method = make(dimensions, classes)
    method(make_batch(dimensions, classes), PAST_THE_RAMP).terms["contrast"].backward()
    for branch in method.decoders.branches:
        gradient = branch.head.weight.grad
        assert isinstance(gradient, Tensor)
        assert gradient.abs().sum() > 0
    assert all(weight.grad is None for weight in method.projector.parameters())


def test_the_gradient_reaches_labelled_and_unlabelled_crops_alike() -> None:
    method, batch = make(), make_batch()
    crops = batch.first.values.requires_grad_()
    method(batch, PAST_THE_RAMP).terms["contrast"].backward()
    assert crops.grad is not None
    assert (crops.grad.flatten(1).abs().sum(dim=1) > 0).all()


def test_the_projector_learns_if_asked_and_is_owned_then() -> None:
    method = make(train_projector=True)
    owned = {id(p) for group in method.parameter_groups() for p in group["params"]}
    assert {id(p) for p in method.projector.parameters()} <= owned
    method(make_batch(), PAST_THE_RAMP).terms["contrast"].backward()
    assert all(weight.grad is not None for weight in method.projector.parameters())
    frozen = make()
    owned = {id(p) for group in frozen.parameter_groups() for p in group["params"]}
    assert not {id(p) for p in frozen.projector.parameters()} & owned


def test_the_projector_is_saved_with_the_method() -> None:
    method, other = make(), make()
    with torch.no_grad():
        for weight in method.projector.parameters():
            weight.add_(0.1)
    other.load_state_dict(method.state_dict())
    terms = []
    for each in (method, other):
        torch.manual_seed(3)
        terms.append(each(make_batch(), PAST_THE_RAMP).terms["contrast"].item())
    assert terms[0] == terms[1]


def test_batches_of_unequal_parts_are_compared() -> None:
    terms = make(2)(make_batch(2, labelled=1, unlabelled=3), PAST_THE_RAMP).terms
    assert terms["contrast"].isfinite()


def test_the_mean_of_the_decoders_predicts_or_the_first() -> None:
    assert isinstance(make().inference_network(), MeanOfDecoders)
    method = make(predict_with="first")
    assert method.inference_network() is method.decoders.first
