import pytest
import torch
from samples import make_batch, make_method, measured

from tracoco.errors import UserError
from tracoco.methods.cac_co import CACCo

PAST_THE_RAMP = 1000


def make(**settings: object) -> CACCo:
    method = make_method("cac-co", 3, 2, 30, 2, **settings)
    assert isinstance(method, CACCo)
    return method


def test_each_network_has_a_projector_and_a_bank_of_its_own() -> None:
    method = make()
    first, second = method.contrasts
    assert not torch.equal(*(part.get_parameter("projector.0.weight") for part in (first, second)))
    method(make_batch(), 5)
    assert not torch.equal(*(part.get_buffer("bank_features") for part in (first, second)))


def test_the_contrast_is_the_sum_of_both_and_none_of_lambdas() -> None:
    method = make(threshold=0.0, start_step=0)
    alone = []
    for contrast, network in zip(method.contrasts, method.networks, strict=True):
        torch.manual_seed(0)
        alone.append(contrast(network, make_batch(), 0)[1].item())
        contrast.get_buffer("bank_labels").fill_(-1)
    assert min(alone) > 0
    torch.manual_seed(0)
    terms = method(make_batch(), 0).terms
    assert terms["ce"].item() == 0.0  # lambda is 0 at first
    assert terms["contrast"].item() == pytest.approx(sum(alone), rel=0.05)  # other voxels drawn


def test_the_peers_teach_the_heads_and_the_contrast_does_not() -> None:
    method = make(threshold=0.0)
    terms = method(make_batch(), PAST_THE_RAMP).terms
    terms["contrast"].backward(retain_graph=True)
    heads = [network.get_submodule("head") for network in method.networks]
    assert all(p.grad is None for head in heads for p in head.parameters())
    assert all(
        any(p.grad is not None and p.grad.any() for p in network.parameters())
        for network in method.networks
    )
    terms["ce"].backward()
    assert all(p.grad is not None and p.grad.any() for head in heads for p in head.parameters())


def test_health_tells_how_far_the_networks_agree() -> None:
    method = make()
    batch = make_batch()
    output = method(batch, 5)
    assert {"class/0", "class/1", "agreement", "distance", "crop_agreement"} <= measured(
        method.health(output, batch)
    ).keys()


def test_cutmix_with_one_unlabelled_crop_is_a_clear_error() -> None:
    with pytest.raises(UserError, match="CutMix"):
        make_method("cac-co", 3, 2, 30, 1)
    method = make_method("cac-co", 3, 2, 30, 1, cutmix=False)
    assert set(method(make_batch(unlabelled=1), 5).terms) == {"supervised", "ce", "contrast"}
