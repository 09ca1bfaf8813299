"""Released weights give the same values in our networks, tensor by tensor or not at all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from released_networks import (
    Contrasting,
    ManyDecoders,
    PlainUNet2d,
    PlainUNet3d,
    PlainVNet,
    TwoHeads,
    randomised,
)
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.networks import build_network
from tracoco.networks.released import NAMINGS, convert, recognise

SIZES = {2: (32, 48), 3: (32, 16, 16)}
Build = Callable[[int], nn.Module]
CASES: dict[str, tuple[Build, str, int]] = {
    "TraCoCo and UA-MT": (PlainVNet, "the VNet of TraCoCo and UA-MT", 0),
    "DTC": (TwoHeads, "the VNet of DTC, with a head for distances", 2),
    "MC-Net": (ManyDecoders, "the VNet of MC-Net with its first decoder", 2 * 93),
    "BCP": (Contrasting, "the VNet of BCP", 2 * 7 + 4),
    "3D UNet": (PlainUNet3d, "the 3D UNet of TraCoCo and SSL4MIS", 0),
    "2D UNet": (PlainUNet2d, "the 2D UNet of TraCoCo, SSL4MIS and BCP", 0),
    "MC-Net in 2D": (
        lambda filters: PlainUNet2d(filters, decoders=3),
        "the 2D UNet of MC-Net with its first decoder",
        2 * 66,
    ),
}
"""A network, how it must be recognised, and how many of its tensors a prediction leaves out."""


def state_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def ours(state: dict[str, Tensor]) -> nn.Module:
    """Our network with these weights."""
    found = recognise(state, "model.pth")
    network = build_network(
        found.naming.network,
        channels=found.channels,
        classes=found.classes,
        dimensions=found.naming.dimensions,
        filters=found.filters,
    )
    network.load_state_dict(convert(found, network))
    return network.eval()


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_released_network(name: str) -> None:
    build, about, unused = CASES[name]
    theirs = randomised(build(4))
    state = state_of(theirs)
    found = recognise(state, "model.pth")
    assert (found.naming.about, found.filters, found.channels) == (about, 4, 1)
    assert len(found.unused) == unused
    size = SIZES[found.naming.dimensions]
    crops = torch.randn(2, 1, *size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected, values = theirs(crops), ours(state)(crops)
    assert expected.std() > 0.05, "values that are all alike would show nothing"
    assert values.shape == expected.shape
    assert (values - expected).abs().max() <= 1e-6 * expected.abs().max()


def test_two_logits_are_as_probable_as_a_sigmoid() -> None:
    network = randomised(TwoHeads(4))
    crops = torch.randn(1, 1, 16, 16, 32)
    with torch.no_grad():
        foreground = ours(state_of(network))(crops).softmax(dim=1)[:, 1]
        logit = network(crops)[:, 1]
    torch.testing.assert_close(foreground, logit.sigmoid(), rtol=0, atol=1e-6)
    assert foreground.std() > 0.01


@pytest.mark.parametrize(
    ("build", "layers", "tensors"), [(PlainVNet, 59, 205), (PlainUNet3d, 19, 38)]
)
def test_every_layer_is_mapped(build: Build, layers: int, tensors: int) -> None:
    found = recognise(state_of(build(16)), "model.pth")
    assert (found.filters, len(found.naming.layers), len(found.tensors)) == (16, layers, tensors)


def test_every_layer_of_the_2d_unet_is_mapped() -> None:
    found = recognise(state_of(PlainUNet2d(16)), "model.pth")
    assert (len(found.naming.layers), len(found.tensors), found.classes) == (41, 136, 4)


def test_no_table_names_a_layer_twice() -> None:
    for naming in NAMINGS:
        assert len(set(naming.layers.values())) == len(naming.layers), naming.about
        assert naming.layers[naming.head] == "head"


def test_names_of_a_parallel_training_are_understood() -> None:
    network = randomised(PlainVNet(2))
    wrapped = {f"module.{name}": tensor for name, tensor in state_of(network).items()}
    crops = torch.randn(1, 1, 16, 16, 32)
    with torch.no_grad():
        assert torch.equal(ours(wrapped)(crops), network(crops))


def test_half_precision_and_missing_counters_are_taken() -> None:
    state = state_of(randomised(PlainVNet(2)))
    old = {name: t for name, t in state.items() if not name.endswith("num_batches_tracked")}
    assert len(old) == 205 - 29
    network = ours({name: tensor.half() for name, tensor in old.items()})
    weight = network.state_dict()["encoder.stages.0.0.0.weight"]
    assert weight.dtype == torch.float32
    assert torch.equal(weight, state["block_one.conv.0.weight"].half().float())


def refused(change: Callable[[dict[str, Tensor]], Any], build: Build = PlainVNet) -> str:
    state = state_of(build(2))
    change(state)
    with pytest.raises(UserError) as error:
        ours(state)
    return str(error.value)


def test_what_does_not_fit_is_named() -> None:
    error = refused(lambda state: state.pop("block_six.conv.3.weight"))
    assert "model.pth does not fit the VNet of TraCoCo and UA-MT" in error
    assert "1 missing (block_six.conv.3.weight)" in error
    error = refused(lambda state: state.update({"block_ten.weight": torch.zeros(1)}))
    assert "1 left over (block_ten.weight)" in error
    error = refused(lambda state: state.update({"block_two.conv.0.bias": torch.zeros(7)}))
    assert "1 of another shape (block_two.conv.0.bias [7] in place of [4])" in error
    error = refused(lambda state: [state.pop(n) for n in list(state) if n.startswith("block_two.")])
    assert "12 missing" in error
    assert "and 8 more" in error
    error = refused(lambda state: state["block_two.conv.0.bias"].fill_(float("nan")))
    assert "not finite in block_two.conv.0.bias" in error


def test_a_network_without_batch_normalisation_is_refused() -> None:
    def strip(state: dict[str, Tensor]) -> None:
        for name in [n for n in state if ".conv.1." in n]:
            del state[name]

    assert "missing (block_one.conv.1.weight" in refused(strip)


def test_several_structures_with_sigmoids_are_refused() -> None:
    error = refused(lambda _: None, lambda filters: TwoHeads(filters, 2))
    assert "has 2 structures, each with a sigmoid of its own" in error


def test_an_unknown_network_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"holds no network that is known here.*the VNet of BCP"):
        recognise({"layer1.weight": torch.zeros(2)}, "model.pth")
    with pytest.raises(UserError, match=r"block_one\.conv\.0\.weight of .* is missing"):
        ours({"block_one.conv.0.weight": torch.zeros(2)})
