from functools import partial
from typing import Any

import pytest
import torch
from fixed_predictions import Told, everywhere
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.methods import build_method
from tracoco.methods.method import RunFacts
from tracoco.methods.unimatch import UniMatch
from tracoco.networks import build_network
from tracoco.settings import MethodChoice


def make(
    prediction: tuple[float, ...], dimensions: int = 3, **settings: Any
) -> tuple[UniMatch, Told]:
    method = make_method("unimatch", dimensions, len(prediction), **settings)
    assert isinstance(method, UniMatch)
    network = Told(everywhere(*prediction, dimensions=dimensions))
    method.network = network  # type: ignore[assignment]  # it has all that is asked for
    return method, network


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_terms_by_hand(dimensions: int) -> None:
    # Class 0 everywhere, sure by 0.96: 1 - 2 * .96 / (.96^2 + 1); class 1 is wrong wherever it is.
    dice = (1 - 1.92 / 1.9216 + 1) / 2
    method, _ = make((0.96, 0.04), dimensions)
    for step in (0, 1000):
        terms = method(make_batch(dimensions), step).terms
        assert terms["strong"].item() == pytest.approx(0.5 * (dice + dice), rel=1e-4)
        assert terms["features"].item() == pytest.approx(dice, rel=1e-4)


def test_weights_are_settings_and_in_the_releases_proportion() -> None:
    # There x / 2 + s1 / 8 + s2 / 8 + f / 4, and x is half of our supervised loss.
    method, _ = make((0.96, 0.04))
    assert method.config.strong_weight * 0.25 == 1 / 8
    assert method.config.feature_weight * 0.25 == 1 / 4
    other, _ = make((0.96, 0.04), strong_weight=2.0, feature_weight=3.0)
    batch = make_batch()
    plain, weighted = method(batch, 0).terms, other(batch, 0).terms
    assert weighted["strong"].item() == pytest.approx(4 * plain["strong"].item(), rel=1e-5)
    assert weighted["features"].item() == pytest.approx(3 * plain["features"].item(), rel=1e-5)


@pytest.mark.parametrize("prediction", [(0.94, 0.06), (0.94, 0.02, 0.02, 0.02)])
def test_below_the_threshold_nothing_is_learnt(prediction: tuple[float, ...]) -> None:
    method, network = make(prediction)
    terms = method(make_batch(classes=len(prediction)), 0).terms
    unlabelled = terms["strong"] + terms["features"]
    unlabelled.backward()
    assert unlabelled.item() == 0.0
    assert network.logits.grad is not None
    assert not network.logits.grad.any()


def test_padding_does_not_count() -> None:
    method, _ = make((0.96, 0.04))
    batch = make_batch()
    batch.first.valid[2:] = False
    terms = method(batch, 0).terms
    assert terms["strong"].item() == terms["features"].item() == 0.0


@pytest.mark.parametrize("dimensions", [2, 3])
def test_whole_channels_of_every_level_are_dropped_from_the_unlabelled_crops(
    dimensions: int,
) -> None:
    method, network = make((0.5, 0.5), dimensions)
    batch = make_batch(dimensions)
    method(batch, 0)
    for given, expected in zip(network.decoded[0], network.encode(batch.first.values), strict=True):
        assert torch.equal(given[:4], expected)
        dropped, unlabelled = given[4:].flatten(2), expected[2:].flatten(2)
        kept = dropped.any(dim=2, keepdim=True)
        assert torch.equal(dropped, torch.where(kept, 2 * unlabelled, 0.0))
    wide = network.decoded[0][0][4:].flatten(2).any(dim=2)
    assert wide.any()
    assert not wide.all()


def test_features_are_not_dropped_at_a_share_of_nothing() -> None:
    method, network = make((0.5, 0.5), feature_dropout=0.0)
    method(make_batch(), 0)
    given = network.decoded[0][0]
    assert torch.equal(given[4:], given[2:4])


def test_two_views_are_seen_in_one_pass_and_differ() -> None:
    method, network = make((0.96, 0.04))
    torch.manual_seed(0)
    method(make_batch(), 0)
    views = network.decoded[-1][0]
    assert len(views) == 4
    assert not torch.equal(views[:2], views[2:])


def decoded_maps(method: UniMatch) -> list[Tensor]:
    """What the decoder makes of the training pass, of the clean one, and of both strong views."""
    seen: list[Tensor] = []

    def note(_: nn.Module, __: object, levels: list[Tensor]) -> None:
        seen.append(levels[-1])
        if levels[-1].requires_grad:
            levels[-1].retain_grad()

    method.network.decoder.register_forward_hook(note)
    return seen


@pytest.mark.parametrize("term", ["strong", "features"])
def test_pseudo_labels_carry_no_gradient(term: str) -> None:
    method = make_method("unimatch", 2, threshold=0.0)
    assert isinstance(method, UniMatch)
    seen = decoded_maps(method)
    method(make_batch(2), 0).terms[term].backward()
    training, _, strong = (maps.grad for maps in seen)
    if term == "strong":
        assert training is None
        assert strong is not None
        assert strong.flatten(1).any(dim=1).all()
    else:  # the crops as they are come first, then the unlabelled ones with perturbed features
        assert strong is None
        assert training is not None
        assert training.flatten(1).any(dim=1).tolist() == 4 * [False] + 2 * [True]


def test_batch_norm_sees_the_perturbed_features_of_labelled_crops_too() -> None:
    # As in the release. Nothing learns from them, so without BatchNorm they are not decoded.
    facts = RunFacts(2, 1, 2, total_steps=9, steps_per_epoch=1, unlabelled_batch=2)
    network = partial(
        build_network, name="light-unet", channels=1, classes=2, dimensions=2, filters=4
    )
    settings: dict[str, Any] = {"threshold": 0.0}
    choice = MethodChoice(name="unimatch", **settings)
    decoded = []
    for normalisation in ("batch", "instance"):
        method = build_method(choice, partial(network, normalisation=normalisation), facts)
        assert isinstance(method, UniMatch)
        seen = decoded_maps(method)
        method(make_batch(2), 0).terms["features"].backward()
        decoded.append(len(seen[0]))
        gradient = seen[0].grad
        assert gradient is not None
        if normalisation == "batch":
            # The rest has one too: it moves the statistics of what learns.
            size = gradient.flatten(1).norm(dim=1)
            assert size[6:].min() > size[:6].max()
    assert decoded == [8, 6]


def test_a_network_without_feature_maps_is_refused() -> None:
    facts = RunFacts(2, 1, 3, total_steps=9, steps_per_epoch=1, unlabelled_batch=2)
    with pytest.raises(UserError, match="method 'unimatch' needs the feature maps"):
        build_method(MethodChoice(name="unimatch"), lambda: nn.Conv3d(1, 2, 1), facts)
