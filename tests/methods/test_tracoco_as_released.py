from dataclasses import replace
from typing import Any

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.methods import METHODS
from tracoco.methods.tracoco_as_released import (
    TraCoCoAsReleased,
    draw_released_mix,
    keep_largest_components,
)

PAST_THE_RAMP = 1000


def released(**settings: Any) -> TraCoCoAsReleased:
    method = make_method("tracoco-as-released", **settings)
    assert isinstance(method, TraCoCoAsReleased)
    return method


class Recorder(nn.Module):
    """A network that remembers what it was shown, and whether a gradient was wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.passes: list[tuple[Tensor, bool, bool]] = []

    def forward(self, crops: Tensor) -> Tensor:
        self.passes.append((crops, torch.is_grad_enabled(), self.training))
        return torch.cat([crops, -crops], dim=1) * self.scale


def recorded(**settings: Any) -> tuple[TraCoCoAsReleased, list[Recorder]]:
    method, networks = released(**settings), [Recorder(), Recorder()]
    method.networks = nn.ModuleList(networks)
    return method, networks


def test_each_network_has_three_passes_with_gradient_and_a_clean_one_without() -> None:
    method, networks = recorded()
    batch = make_batch()
    method.train()(batch, PAST_THE_RAMP)
    for network in networks:
        assert [graded for _, graded, _ in network.passes] == [True, True, False, True]
        assert all(training for _, _, training in network.passes)
        assert all(len(crops) == 4 for crops, _, _ in network.passes)
        torch.testing.assert_close(network.passes[2][0], batch.first.values)
        assert not torch.equal(network.passes[3][0], network.passes[0][0])


def test_only_the_second_network_sees_mixed_crops() -> None:
    torch.manual_seed(2)
    method, (first, second) = recorded(noise=0.0)
    batch = make_batch()
    method(batch, PAST_THE_RAMP)
    assert torch.equal(first.passes[3][0], batch.first.values)
    assert not torch.equal(second.passes[3][0], batch.first.values)


def test_the_acdc_variant_mixes_for_both() -> None:
    torch.manual_seed(2)
    method, (first, _) = recorded(noise=0.0, mixed_networks="both")
    batch = make_batch()
    method(batch, PAST_THE_RAMP)
    assert not torch.equal(first.passes[3][0], batch.first.values)


def test_noise_is_clipped_where_the_variant_clips_it() -> None:
    for clipped in (False, True):
        method, (first, _) = recorded(noise=0.5, noise_stays_in_range=clipped)
        method(make_batch(), PAST_THE_RAMP)
        assert bool((first.passes[0][0] < 0).any()) is not clipped


def test_noise_is_clipped_at_the_limits_of_the_plan() -> None:
    method, (first, _) = recorded(noise=2.0, noise_stays_in_range=True)
    method.limits = (-1.0, 0.5)
    method(make_batch(), PAST_THE_RAMP)
    shown = first.passes[0][0]
    assert (shown.min().item(), shown.max().item()) == (-1.0, 0.5)


def test_the_ramp_is_forty_epochs_and_does_not_start_at_zero() -> None:
    method = released()
    assert method.unsupervised_weight(0) == pytest.approx(0.0067379, abs=1e-6)
    assert method.unsupervised_weight(39) < 1
    assert method.unsupervised_weight(40) == 1


def test_lambda_weights_all_but_the_supervised_term() -> None:
    terms = []
    for weight in (1.0, 0.5):
        method = released(unsupervised_weight=weight)
        torch.manual_seed(0)
        terms.append(method(make_batch(), PAST_THE_RAMP).terms)
    assert terms[0]["supervised"].item() == terms[1]["supervised"].item()
    for name in ("crc", "translation", "entropy"):
        assert terms[1][name].item() == pytest.approx(terms[0][name].item() / 2, rel=1e-5)


def test_pseudo_label_dice_is_averaged_with_crc() -> None:
    """Both networks answer p = .5 everywhere: CRC is 0, and Dice is of an empty pseudo-label."""
    method, _ = recorded(noise=0.0, pseudo_label_dice=True)
    batch = make_batch()
    zero = replace(batch.first, values=torch.zeros_like(batch.first.values))
    terms = method(replace(batch, first=zero), PAST_THE_RAMP).terms
    # Dice loss of an empty foreground at p = .5 is 1; half of it, twice.
    assert terms["crc"].item() == pytest.approx(1.0, abs=1e-4)


def test_boxes_go_through_the_third_axis_and_a_crop_may_be_its_own_partner() -> None:
    torch.manual_seed(0)
    own, fractions = 0, []
    for _ in range(300):
        mix = draw_released_mix(4, torch.Size((32, 32, 8)))
        assert torch.equal(mix.mask.any(dim=-1), mix.mask.all(dim=-1))
        own += int((mix.partner == torch.arange(4)).sum())
        fractions.append(mix.mask.float().mean())
    assert own / 1200 == pytest.approx(0.25, abs=0.04)
    assert torch.stack(fractions).mean().item() == pytest.approx(0.354, abs=0.03)


def test_small_components_lose_their_logits_but_for_the_background() -> None:
    """Two islands of class 1: the smaller keeps its background logit alone."""
    label = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    logits = torch.stack([2.0 - 3 * label, -1.0 + 4 * label]).unsqueeze(0)
    kept = keep_largest_components(logits)
    assert kept[0, :, 0, 0].tolist() == [0.0, 3.0]
    assert kept[0, :, 0, 3].tolist() == [-1.0, 0.0]
    assert kept[0, :, 2, 0].tolist() == [2.0, 0.0]


def test_crops_of_one_class_are_left_as_they_are() -> None:
    logits = torch.tensor([2.0, -1.0]).reshape(1, 2, 1, 1).expand(1, 2, 3, 3)
    assert torch.equal(keep_largest_components(logits), logits)


def test_the_row_warns_of_the_spatial_axis() -> None:
    assert "spatial axis" in METHODS["tracoco-as-released"].caution
