"""Attention against torch's own, and places on maps of other sizes than the grid."""

import pytest
import torch
from torch import Tensor, nn

from tracoco.networks.transunet import Attention, Layer, Transformer


def small(*, channels: int = 3, layers: int = 2, dropout: float = 0.0) -> Transformer:
    torch.manual_seed(0)
    return Transformer(channels, hidden=8, layers=layers, heads=2, grid=4, dropout=dropout)


def test_attention_is_that_of_torch() -> None:
    torch.manual_seed(0)
    ours, reference = Attention(8, heads=2), nn.MultiheadAttention(8, 2, batch_first=True)
    reference.in_proj_weight.data = ours.enter.weight.data
    reference.in_proj_bias.data = ours.enter.bias.data
    reference.out_proj.weight.data = ours.leave.weight.data
    reference.out_proj.bias.data = ours.leave.bias.data
    tokens = torch.randn(2, 5, 8)
    torch.testing.assert_close(ours(tokens), reference(tokens, tokens, tokens)[0])


def test_a_layer_adds_to_what_was_there() -> None:
    layer = Layer(8, heads=2, dropout=0.1).eval()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    tokens = torch.randn(1, 3, 8)
    assert torch.equal(layer(tokens), tokens)


@pytest.mark.parametrize("size", [(4, 4), (2, 1), (3, 7)])
def test_the_map_keeps_its_size(size: tuple[int, int]) -> None:
    assert small()(torch.randn(2, 3, *size)).shape == (2, 8, *size)


def test_tokens_stand_where_their_places_are() -> None:
    # No layers: each place is normalised by itself, so a change in one place stays there.
    network = small(layers=0)
    maps = torch.zeros(1, 3, 3, 5)
    changed = maps.clone()
    changed[0, :, 1, 4] = torch.tensor([1.0, -2.0, 3.0])
    difference = (network(changed) - network(maps)).abs().amax(dim=1)[0]
    assert difference.nonzero().tolist() == [[1, 4]]


def test_every_token_sees_every_other() -> None:
    network = small()
    maps = torch.randn(1, 3, 3, 5)
    changed = maps.clone()
    changed[0, :, 0, 0] += 1
    assert ((network(changed) - network(maps)).abs().amax(dim=1) > 0).all()


def places_seen(network: Transformer, size: tuple[int, int]) -> Tensor:
    """What is added to an empty map, with the projection and the norm taken out."""
    for parameter in network.project.parameters():
        nn.init.zeros_(parameter)
    network.norm = nn.Identity()  # type: ignore[assignment]  # no norm
    seen: Tensor = network(torch.zeros(1, 3, *size))
    return seen


def test_places_start_at_zero_and_are_taken_as_they_are_on_their_own_grid() -> None:
    network = small(layers=0)
    assert not network.places.any()
    nn.init.normal_(network.places)
    assert torch.equal(places_seen(network, (4, 4)), network.places)


def test_places_are_stretched_over_larger_maps() -> None:
    # A ramp 0, 1, 2, 3 along x at twice the size: in between a quarter of the way, as doubling is.
    network = small(layers=0)
    network.places.data = torch.arange(4.0).reshape(1, 1, 4, 1).expand(1, 8, 4, 4).clone()
    seen = places_seen(network, (8, 4))[0, 0, :, 0]
    assert seen.tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]


def test_dropout_is_for_training_alone() -> None:
    network = small(dropout=0.5)
    maps = torch.randn(1, 3, 4, 4)
    assert not torch.equal(network(maps), network(maps))
    network.eval()
    assert torch.equal(network(maps), network(maps))
