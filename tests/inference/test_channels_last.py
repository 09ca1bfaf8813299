"""The light UNet with its channels last says what it says with them first."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tracoco.inference.folding import fast_network
from tracoco.networks import build_network
from tracoco.networks.light_unet import Double, Pointwise, Residual


def assert_same(network: nn.Module, crops: Tensor) -> nn.Module:
    """The rearranged network, after it was seen to say the same with statistics of its own."""
    with torch.no_grad():
        for _ in range(3):
            network.train()(torch.randn_like(crops))
        network.eval()
        fast = fast_network(network)
        torch.testing.assert_close(fast(crops), network(crops), rtol=1e-5, atol=1e-5)
    return fast


@pytest.mark.parametrize("up", ["transpose", "linear", "nearest"])
@pytest.mark.parametrize(
    "strides", [((2, 2, 1), (2, 2, 2), (1, 2, 2)), ((2, 1), (2, 2))], ids=["3d", "2d"]
)
def test_a_light_unet_of_any_form_says_the_same(strides: tuple[Any, ...], up: Any) -> None:
    dimensions = len(strides[0])
    torch.manual_seed(0)
    network = build_network(
        "light-unet", channels=1, classes=3, dimensions=dimensions, filters=4, strides=strides
    )
    network.decoder = network.make_decoder(up)  # type: ignore[operator]  # a Network
    fast = assert_same(network, torch.randn(2, 1, *(16, 24, 8)[:dimensions]))
    kinds = {type(part) for part in fast.modules()}
    assert not kinds & {Pointwise, Double, Residual}


def test_a_light_unet_with_instance_normalisation_is_left_as_it_is() -> None:
    common = {"channels": 1, "classes": 2, "dimensions": 3, "filters": 4}
    network = build_network("light-unet", **common, normalisation="instance")  # type: ignore[arg-type]  # by name
    assert fast_network(network.eval()) is network


def test_a_layer_that_others_watch_is_kept() -> None:
    network = build_network("light-unet", channels=1, classes=2, dimensions=2, filters=4)
    seen: list[int] = []
    head: Any = network.head
    head.register_forward_hook(lambda *_: seen.append(1))
    fast = assert_same(network, torch.randn(2, 1, 16, 16))
    assert isinstance(fast.head, Pointwise)
    assert len(seen) == 5  # three passes before
