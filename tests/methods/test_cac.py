import pytest
import torch
from samples import make_batch, make_method
from torch import nn

from tracoco.errors import UserError
from tracoco.losses.supervised import supervised_loss
from tracoco.methods import build_method
from tracoco.methods.cac import CAC
from tracoco.methods.method import RunFacts
from tracoco.settings import MethodChoice


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> CAC:
    method = make_method("cac", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, CAC)
    return method


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_contrast_teaches_features_and_projector_but_never_the_head(
    dimensions: int, classes: int
) -> None:
    method = make(dimensions, classes, threshold=0.0)
    method.contrast.bank_features.normal_()
    method.contrast.bank_labels.fill_(classes)  # strangers to all, whatever the network says
    method(make_batch(dimensions, classes), 5).terms["contrast"].backward()
    for module in (method.network.encoder, method.network.decoder, method.contrast.projector):
        assert any(p.grad is not None and p.grad.any() for p in module.parameters())
    assert all(p.grad is None for p in method.network.head.parameters())


def test_the_contrast_is_of_the_unlabelled_pairs_alone() -> None:
    method = make(threshold=0.0, noise=0.0).eval()
    batch, other = make_batch(), make_batch()
    other.first.values[:2] += 1.0
    other.second.values[:2] += 1.0
    found = []
    for each in (batch, other):
        method.contrast.bank_labels.fill_(-1)
        torch.manual_seed(0)
        found.append(method(each, 5).terms["contrast"].item())
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0] > 0


def test_the_supervised_term_is_that_of_the_first_labelled_crops() -> None:
    method = make(noise=0.0).eval()
    batch = make_batch()
    with torch.no_grad():
        logits = method.network(batch.first.values[:2])
    expected = supervised_loss(logits, batch.labels, batch.first.valid[:2])
    torch.testing.assert_close(method(batch, 5).terms["supervised"], expected)


def test_a_few_steps_bring_the_two_crops_features_together() -> None:
    method = make(threshold=0.0, noise=0.0, start_step=0, positions=200, bank=800)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1)
    batch = make_batch(dimensions=3)
    found = []
    for _ in range(8):
        torch.manual_seed(0)
        contrast = method(batch, 0).terms["contrast"]
        optimizer.zero_grad()
        contrast.backward()
        optimizer.step()
        found.append(contrast.item())
    # The first step has no step before it in its bank.
    assert found[-1] < found[1]


def test_the_projector_is_not_part_of_what_predicts() -> None:
    method = make()
    assert method.inference_network() is method.network
    assert method.trained_networks() == [method.network]


def test_a_network_without_features_is_a_clear_error() -> None:
    facts = RunFacts(2, 1, 3, total_steps=30, steps_per_epoch=1, unlabelled_batch=2)
    for name in ("cac", "cac-co"):
        with pytest.raises(UserError, match=f"'{name}' needs the feature maps"):
            build_method(MethodChoice(name=name), lambda: nn.Conv3d(1, 2, 1), facts)
