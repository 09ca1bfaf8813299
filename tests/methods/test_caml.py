import math
from dataclasses import replace

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import nn

from tracoco.errors import UserError
from tracoco.losses.consistency import mutual_loss
from tracoco.losses.supervised import supervised_loss
from tracoco.methods import build_method
from tracoco.methods.caml import CAML, BatchAttention
from tracoco.methods.method import RunFacts
from tracoco.settings import MethodChoice

PAST_THE_RAMP = 1000


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> CAML:
    method = make_method("caml", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, CAML)
    return method


def test_terms_are_those_of_both_networks_on_labelled_and_on_all_crops() -> None:
    method = make().eval()
    batch = make_batch(2)
    batch.first.valid[3, :8] = False
    logits = [network(batch.first.values) for network in (method.plain, method.attentive)]
    terms = method(batch, PAST_THE_RAMP).terms
    valid = batch.first.valid
    supervised = sum(supervised_loss(each[:2], batch.labels, valid[:2]) for each in logits)
    torch.testing.assert_close(terms["supervised"], supervised)
    expected = 2 * mutual_loss(logits, valid, temperature=0.1, detached=False)
    torch.testing.assert_close(terms["consistency"], expected)
    weights = [*method.plain.head.parameters()]  # targets are not detached
    for found, wanted in zip(
        torch.autograd.grad(terms["consistency"], weights, retain_graph=True),
        torch.autograd.grad(expected, weights),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted)


def test_the_ramp_takes_a_fifth_of_the_run_and_weights_are_settings() -> None:
    found = {}
    for step in (0, 3, 6):
        method = make()
        torch.manual_seed(3)
        found[step] = method(make_batch(2), step).terms
    for step, ramp in [(0, math.exp(-5)), (3, math.exp(-1.25))]:
        for term in ("consistency", "relation"):
            expected = ramp * found[6][term].item()
            assert found[step][term].item() == pytest.approx(expected, rel=1e-4)
    method = make(unsupervised_weight=3.0, relation_weight=0.2, rampup_steps=1)
    torch.manual_seed(3)
    terms = method(make_batch(2), 1).terms
    assert terms["consistency"].item() == pytest.approx(1.5 * found[6]["consistency"].item())
    assert terms["relation"].item() == pytest.approx(2 * found[6]["relation"].item(), rel=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_relations_teach_both_networks_but_never_their_output_layers(
    dimensions: int, classes: int
) -> None:
    method = make(dimensions, classes)
    method(make_batch(dimensions, classes), PAST_THE_RAMP).terms["relation"].backward()
    for network in (method.plain, method.attentive):
        for part in (network.encoder, network.decoder):
            assert any(p.grad is not None and p.grad.any() for p in part.parameters())
        assert all(p.grad is None for p in network.head.parameters())


def test_padding_of_unlabelled_crops_teaches_nothing() -> None:
    method = make().eval()
    batch = make_batch(2)
    batch.first.valid[2:] = False
    terms = method(batch, PAST_THE_RAMP).terms
    assert terms["relation"].item() == 0.0
    assert terms["relation"].requires_grad


def test_only_the_second_network_has_attention_and_it_does_not_predict() -> None:
    method = make().eval()
    assert not any(isinstance(part, BatchAttention) for part in method.plain.modules())
    assert sum(isinstance(part, BatchAttention) for part in method.attentive.modules()) == 1
    crops = torch.rand(2, 1, 16, 16)
    before = method.predict(crops)
    with torch.no_grad():
        for weight in method.attentive.parameters():
            weight.normal_()
    assert torch.equal(method.predict(crops), before)
    assert len(method.predict_members(crops)) == 2
    assert method.inference_network() is method.plain


def test_a_resumed_run_has_its_bank() -> None:
    method, other = make(), make()
    method(make_batch(2), 0)
    other.load_state_dict(method.state_dict())
    batch = make_batch(2, seed=1)
    renamed = replace(batch, cases=tuple(f"other{case}" for case in batch.cases))
    found = []
    for each in (method, other, make()):
        torch.manual_seed(5)
        found.append(each(renamed, PAST_THE_RAMP).terms["relation"].item())
    assert found[0] == found[1] != found[2]
    assert len(method.relations.bank.get_extra_state()) == 4


def test_health_compares_the_networks_on_unlabelled_crops() -> None:
    method = make()
    batch = make_batch(2)
    output = method(batch, 0)
    plain, attentive = output.pseudo_labels
    plain[:, 0], plain[:, 1] = 0.75, 0.25
    attentive[:, 0], attentive[:, 1] = 0.25, 0.75
    assert measured(method.health(output, batch)) == pytest.approx(
        {"class/0": 1.0, "class/1": 0.0, "agreement": 0.0, "distance": 0.5 * 256}
    )


def test_a_network_without_features_is_a_clear_error() -> None:
    facts = RunFacts(2, 1, 3, total_steps=30, steps_per_epoch=1, unlabelled_batch=2)
    with pytest.raises(UserError, match="'caml' needs the feature maps"):
        build_method(MethodChoice(name="caml"), lambda: nn.Conv3d(1, 2, 1), facts)
