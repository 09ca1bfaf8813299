import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from fixed_predictions import Told, everywhere
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.methods import build_method
from tracoco.methods.crossmatch import CrossMatch
from tracoco.methods.method import RunFacts
from tracoco.methods.parts import weak_to_strong
from tracoco.methods.parts.cutmix import Mix
from tracoco.settings import MethodChoice

PLAIN, WEAK, STRONG = (0.96, 0.04), (0.03, 0.97), (0.6, 0.4)
"""What the decoders say of the crops: sure of class 0, sure of class 1, and unsure."""
VIEW, VIEW_WEAK, VIEW_STRONG = (0.8, 0.2), (0.7, 0.3), (0.1, 0.9)
"""What they say of the strong views."""


def make(dimensions: int = 3, classes: int = 2, **settings: Any) -> CrossMatch:
    method = make_method("crossmatch", dimensions, classes, **settings)
    assert isinstance(method, CrossMatch)
    return method


def with_network(
    prediction: tuple[float, ...], dimensions: int = 3, *, normalised: bool = False, **settings: Any
) -> tuple[CrossMatch, Told]:
    method = make(dimensions, len(prediction), **settings)
    network = Told(everywhere(*prediction, dimensions=dimensions), normalised=normalised)
    method.network = network  # type: ignore[assignment]  # it has all that is asked for
    return method, network


def decoders_say(
    method: CrossMatch, monkeypatch: pytest.MonkeyPatch, *passes: Sequence[Sequence[float]]
) -> list[list[Tensor]]:
    """Let the three decoders of each pass give these predictions; their logits are returned."""
    given: list[list[Tensor]] = []
    left: Iterator[Sequence[Sequence[float]]] = iter(passes)

    def answer(crops: Tensor, start: int) -> list[Tensor]:
        counts = (len(crops), len(crops) - start, len(crops) - start)
        logits = [
            everywhere(*prediction, dimensions=crops.ndim - 2)
            .log()
            .expand(count, -1, *crops.shape[2:])
            .clone()
            .requires_grad_()
            for prediction, count in zip(next(left), counts, strict=True)
        ]
        given.append(logits)
        return logits

    monkeypatch.setattr(method, "_decoders", answer)
    return given


def dice(probability: float) -> float:
    """Of two classes: the label's own, and the other, which is nowhere and so wrong everywhere."""
    return (1 - 2 * probability / (probability**2 + 1) + 1) / 2


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_terms_by_hand(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method = make(dimensions, cutmix=False)
    decoders_say(method, monkeypatch, (PLAIN, WEAK, STRONG), (VIEW, VIEW_WEAK, VIEW_STRONG))
    terms = method(make_batch(dimensions), 0).terms
    teach = (dice(0.03) + dice(0.6) + dice(0.7) + dice(0.1)) / 4
    own = (dice(0.3) + 0) / 2  # the strongly perturbed decoder is not sure enough
    assert terms["strong"].item() == pytest.approx(0.5 * 2 * dice(0.8), rel=1e-4)
    assert terms["distillation"].item() == pytest.approx(0.7 * teach + 0.3 * own, rel=1e-4)


def test_weights_are_in_the_releases_proportion() -> None:
    """There x / 2 + s1 / 8 + s2 / 8 + d / 4 for ACDC, and x is half of our supervised loss."""
    config = make().config
    assert config.strong_weight * 0.25 == 1 / 8
    assert config.distillation_weight * 0.25 == 1 / 4


def test_weights_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = ((PLAIN, WEAK, STRONG), (VIEW, VIEW_WEAK, VIEW_STRONG))
    found = []
    weighted_by: dict[str, Any] = {"strong_weight": 2.0, "distillation_weight": 3.0}
    for settings in ({}, weighted_by, {"eta": 1.0}):
        method = make(2, 2, cutmix=False, **settings)
        decoders_say(method, monkeypatch, *passes)
        found.append(method(make_batch(2), 0).terms)
    plain, weighted, own = found
    torch.testing.assert_close(weighted["strong"], 4 * plain["strong"])
    torch.testing.assert_close(weighted["distillation"], 3 * plain["distillation"])
    assert own["distillation"].item() == pytest.approx(dice(0.3) / 2, rel=1e-4)


def test_the_background_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class 1 is what the plain decoder finds: 1 - 2 (0.2) / (0.04 + 1) of the views."""
    method = make(2, cutmix=False, background=False)
    sure = (0.04, 0.96)
    decoders_say(method, monkeypatch, (sure, STRONG, STRONG), (VIEW, VIEW_WEAK, VIEW_STRONG))
    term = method(make_batch(2), 0).terms["strong"]
    assert term.item() == pytest.approx(1 - 0.4 / 1.04, rel=1e-4)


def test_four_classes_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class 0 by 1/4 everywhere; three classes are wrong wherever they are."""
    method = make(2, 4, cutmix=False)
    sure, unsure = (0.97, 0.01, 0.01, 0.01), (0.25,) * 4
    decoders_say(method, monkeypatch, (sure, unsure, unsure), (unsure, unsure, unsure))
    terms = method(make_batch(2, 4), 0).terms
    expected = (1 - 0.5 / (17 / 16) + 3) / 4
    assert terms["strong"].item() == pytest.approx(expected, rel=1e-3)
    assert terms["distillation"].item() == pytest.approx(0.7 * expected, rel=1e-3)


def test_gradients_go_to_learners_and_pull_them_to_the_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = make(2, cutmix=False)
    given = decoders_say(method, monkeypatch, (PLAIN, WEAK, WEAK), (VIEW, VIEW_WEAK, VIEW_WEAK))
    terms = method(make_batch(2), 0).terms
    (terms["strong"] + terms["distillation"]).backward()
    (plain, weak, strong), (views, *_) = given
    assert plain.grad is None  # it teaches, and learns from labels alone
    for learner in (weak, strong, views):
        assert learner.grad is not None
        assert (learner.grad[:, 0] < 0).all()
        assert (learner.grad[:, 1] > 0).all()


def test_the_perturbed_decoders_learn_from_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With eta 1 the label of a view is that of the same decoder, here class 1."""
    method = make(2, cutmix=False, eta=1.0)
    given = decoders_say(method, monkeypatch, (PLAIN, WEAK, STRONG), (VIEW, VIEW_WEAK, VIEW_STRONG))
    method(make_batch(2), 0).terms["distillation"].backward()
    _, weak, strong = given[1]
    assert weak.grad is not None
    assert (weak.grad[:, 0] > 0).all()
    assert (weak.grad[:, 1] < 0).all()
    assert strong.grad is not None
    assert not strong.grad.any()  # its own label is not sure


@pytest.mark.parametrize("prediction", [(0.94, 0.06), (0.94, 0.02, 0.02, 0.02)])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_unsure_labels_teach_nothing(prediction: tuple[float, ...], dimensions: int) -> None:
    method, network = with_network(prediction, dimensions)
    terms = method(make_batch(dimensions, len(prediction)), 0).terms
    unlabelled = terms["strong"] + terms["distillation"]
    unlabelled.backward()
    assert unlabelled.item() == 0.0
    assert network.logits.grad is not None
    assert not network.logits.grad.any()


def test_padding_teaches_nothing() -> None:
    method, _ = with_network(PLAIN)
    batch = make_batch()
    batch.first.valid[2:] = False
    terms = method(batch, 0).terms
    assert terms["strong"].item() == terms["distillation"].item() == 0.0


def test_all_labels_of_the_second_view_have_the_same_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two crops of unlike classes: whoever learns from a box must be given the partner's class."""
    box = torch.zeros(2, 16, 16, dtype=torch.bool)
    box[:, :4] = True
    monkeypatch.setattr(weak_to_strong, "draw_small_mix", lambda *_: Mix(torch.tensor([1, 0]), box))
    monkeypatch.setattr(weak_to_strong, "strong_view", lambda crops, *_: crops)
    method = make(2)

    def bright(crops: Tensor) -> Tensor:
        return torch.cat([0.5 - crops, crops - 0.5], dim=1) * 1000

    def answer(crops: Tensor, start: int) -> list[Tensor]:
        return [bright(crops), bright(crops[start:]), bright(crops[start:])]

    monkeypatch.setattr(method, "_decoders", answer)
    monkeypatch.setattr(method.network, "forward", bright)
    batch = make_batch(2)
    batch.first.values[2], batch.first.values[3] = 0.1, 0.9
    terms = method(batch, 0).terms
    assert terms["strong"].item() == pytest.approx(0.0, abs=1e-4)
    assert terms["distillation"].item() == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("normalised", [False, True])
def test_few_and_many_channels_are_dropped_of_unlabelled_maps_at_every_level(
    *, normalised: bool
) -> None:
    """Maps of labelled crops and of the first view stay whole; BatchNorm sees all at once."""
    method, network = with_network(
        PLAIN, cutmix=False, normalised=normalised, weak_dropout=0.0, strong_dropout=0.999
    )
    method(make_batch(), 0)
    assert len(network.decoded) == (2 if normalised else 4)
    for index in (0, 1):
        if normalised:
            levels = [(maps[:4], maps[4:]) for maps in network.decoded[index]]
        else:
            pairs = zip(network.decoded[2 * index], network.decoded[2 * index + 1], strict=True)
            levels = list(pairs)
        for whole, perturbed in levels:
            assert (len(whole), len(perturbed)) == (4, 4)
            assert torch.equal(perturbed[:2], whole[2:])  # nothing dropped
            assert not perturbed[2:].any()  # everything


def test_kept_channels_grow_by_what_is_dropped() -> None:
    torch.manual_seed(0)
    method, network = with_network(PLAIN, cutmix=False)
    for _ in range(30):
        method(make_batch(), 0)
    for part, rate in [(slice(2), 0.25), (slice(2, 4), 0.75)]:
        maps = torch.cat([group[0][part] for group in network.decoded[1::4]])
        whole = torch.cat([group[0][2:] for group in network.decoded[::4]])
        kept = maps.flatten(2).any(dim=2)
        assert kept.float().mean().item() == pytest.approx(1 - rate, abs=0.06)
        torch.testing.assert_close(maps[kept], whole[kept] / (1 - rate))


def test_the_threshold_can_rise() -> None:
    assert make().threshold(0) == make().threshold(1000) == 0.95
    method = make(threshold=0.5, final_threshold=0.7, threshold_steps=10)
    assert method.threshold(0) == pytest.approx(0.5 + 0.2 * math.exp(-5))
    assert method.threshold(5) == pytest.approx(0.5 + 0.2 * math.exp(-1.25))
    assert method.threshold(10) == method.threshold(1000) == pytest.approx(0.7)
    assert make(final_threshold=0.7).threshold_steps == 30


def test_a_threshold_that_has_risen_lets_less_count(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make(2, cutmix=False, threshold=0.9, final_threshold=0.99, threshold_steps=10)
    for step, counts in [(0, True), (10, False)]:
        decoders_say(method, monkeypatch, (PLAIN, STRONG, STRONG), (VIEW, VIEW, VIEW))
        assert bool(method(make_batch(2), step).terms["strong"].item()) == counts


def test_a_network_without_feature_maps_is_refused() -> None:
    facts = RunFacts(2, 1, 3, total_steps=30, steps_per_epoch=1, unlabelled_batch=2)
    with pytest.raises(UserError, match="'crossmatch' needs the feature maps of its network"):
        build_method(MethodChoice(name="crossmatch"), lambda **_: nn.Conv3d(1, 2, 1), facts)
