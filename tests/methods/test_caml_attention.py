import pytest
import torch

from tracoco.methods.caml import BatchAttention, insert_attention
from tracoco.networks import build_network
from tracoco.networks.network import Network


def make(width: int = 8) -> BatchAttention:
    torch.manual_seed(0)
    attention = BatchAttention(width)
    for layer in attention.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    for layer in (attention.within, attention.across):
        layer.self_attn.dropout = 0.0
    return attention


@pytest.mark.parametrize("size", [(3, 4), (3, 4, 2)])
def test_at_test_time_maps_pass_as_they_are(size: tuple[int, ...]) -> None:
    attention, maps = make(), torch.rand(2, 8, *size)
    assert attention.eval()(maps) is maps
    assert attention.train()(maps).shape == maps.shape
    assert not torch.equal(attention(maps), maps)


def influence(attention: BatchAttention) -> torch.Tensor:
    """Which voxels of which crops [2, 3] the second voxel of the first crop depends on."""
    maps = torch.rand(2, 8, 3, requires_grad=True)
    attention(maps)[0, 0, 1].backward()
    assert maps.grad is not None
    return maps.grad.abs().sum(dim=1) > 1e-7


def test_the_first_layer_looks_within_a_crop_and_the_second_across_crops_at_a_voxel() -> None:
    attention = make()
    within, across = attention.within, attention.across
    attention.across = torch.nn.Identity()  # type: ignore[assignment] # left out
    assert influence(attention).tolist() == [[True, True, True], [False, False, False]]
    attention.within, attention.across = torch.nn.Identity(), across  # type: ignore[assignment] # left out
    assert influence(attention).tolist() == [[False, True, False], [False, True, False]]
    attention.within = within
    assert influence(attention).all()


@pytest.mark.parametrize(
    ("name", "dimensions", "level"), [("light-unet", 3, 3), ("vnet", 3, 3), ("unet", 2, 3)]
)
def test_attention_stands_behind_the_fourth_level_and_feeds_what_comes_after(
    name: str, dimensions: int, level: int
) -> None:
    network = build_network(name, channels=1, classes=2, dimensions=dimensions, filters=4)
    assert isinstance(network, Network)
    crops = torch.rand(2, 1, *[32 if dimensions == 2 else 16] * dimensions)
    insert_attention(network)
    *_, last = network.encoder.stages[level].children()
    assert isinstance(last, BatchAttention)
    assert sum(isinstance(part, BatchAttention) for part in network.modules()) == 1
    network(crops).sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_widths_that_four_heads_do_not_divide_have_fewer() -> None:
    assert BatchAttention(6)(torch.rand(2, 6, 3)).shape == (2, 6, 3)
