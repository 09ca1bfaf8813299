"""What every row of `NETWORKS` promises, whatever its design."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.geometry import total_stride
from tracoco.networks import NETWORKS, build_network, check_crop
from tracoco.networks.network import Network, Up, with_features

ROWS = [(name, dimensions) for name, facts in NETWORKS.items() for dimensions in facts.builders]
UPS: tuple[Up, ...] = get_args(Up)
every_network = pytest.mark.parametrize(("name", "dimensions"), ROWS)


def build(name: str, dimensions: int, *, filters: int = 4, channels: int = 1) -> Network:
    torch.manual_seed(0)
    network = build_network(
        name, channels=channels, classes=3, dimensions=dimensions, filters=filters
    )
    return with_features(network, "these tests")


def crops(network: Network, *, count: int = 2, channels: int = 1) -> Tensor:
    """The smallest crops that leave two voxels at the coarsest level."""
    first, *others = network.stride
    size = (2 * first, *others)
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, channels, *size, generator=generator)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@every_network
def test_logits_have_a_channel_per_class_and_the_shape_of_the_crops(
    name: str, dimensions: int
) -> None:
    network = build(name, dimensions, channels=2)
    batch = crops(network, channels=2)
    assert network(batch).shape == (2, 3, *batch.shape[2:])


@every_network
def test_forward_is_head_of_decode_of_encode(name: str, dimensions: int) -> None:
    network = build(name, dimensions).eval()
    batch = crops(network)
    assert torch.equal(network(batch), network.head(network.decode(network.encode(batch))))


@every_network
def test_features_halve_from_level_to_level_and_are_as_wide_as_said(
    name: str, dimensions: int
) -> None:
    network = build(name, dimensions)
    batch = crops(network)
    features = network.encode(batch)
    assert tuple(f.shape[1] for f in features) == network.feature_channels
    finest = 1 if name == "transunet" else 0  # it has no map at the resolution of the crops
    for level, feature in enumerate(features, finest):
        assert feature.shape[2:] == tuple(size // 2**level for size in batch.shape[2:])
    assert features[-1].shape[2:] == (2, *[1] * (dimensions - 1))


@every_network
def test_decoder_levels_double_and_end_with_the_decoded_map(name: str, dimensions: int) -> None:
    network = build(name, dimensions).eval()
    batch = crops(network)
    features = network.encode(batch)
    levels = network.decode_levels(features)
    assert tuple(level.shape[1] for level in levels) == network.decoder_channels
    for halvings, level in enumerate(reversed(levels)):
        assert level.shape[2:] == tuple(size // 2**halvings for size in batch.shape[2:])
    assert torch.equal(levels[-1], network.decode(features))


@pytest.mark.parametrize("up", UPS)
@every_network
def test_another_decoder_works_on_the_same_features(name: str, dimensions: int, up: Up) -> None:
    network = build(name, dimensions).eval()
    features = network.encode(crops(network))
    before = [parameter.clone() for parameter in network.parameters()]

    other = network.make_decoder(up).eval()
    maps = other(features)

    assert [m.shape for m in maps] == [m.shape for m in network.decode_levels(features)]
    assert not torch.allclose(maps[-1], network.decode(features))
    own = {id(parameter) for parameter in network.parameters()}
    assert own.isdisjoint(id(parameter) for parameter in other.parameters())
    assert all(map(torch.equal, before, network.parameters()))


@every_network
def test_decoders_that_rise_differently_give_different_maps(name: str, dimensions: int) -> None:
    network = build(name, dimensions).eval()
    features = network.encode(crops(network))
    maps = []
    for up in UPS:
        torch.manual_seed(0)
        maps.append(network.make_decoder(up).eval()(features)[-1])
    assert not torch.allclose(maps[0], maps[1])
    assert not torch.allclose(maps[1], maps[2])


@every_network
def test_a_second_decoder_teaches_the_shared_encoder(name: str, dimensions: int) -> None:
    network = build(name, dimensions)
    maps = network.make_decoder("nearest")(network.encode(crops(network)))
    maps[-1].square().mean().backward()
    taught = [p for p in network.encoder.parameters() if p.grad is not None and p.grad.any()]
    assert taught
    assert all(parameter.grad is None for parameter in network.decoder.parameters())


@every_network
def test_gradients_reach_every_parameter(name: str, dimensions: int) -> None:
    network = build(name, dimensions).eval()  # dropout may silence a whole map this small
    network(crops(network)).square().mean().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, f"{key} is not connected"
        assert parameter.grad.isfinite().all(), key
        # Normalisation takes away the mean, and a bias with it: only rounding is left of those.
        assert parameter.grad.any() or key.endswith("bias"), f"{key} learns nothing"


@every_network
def test_two_networks_differ_and_one_seed_gives_one_network(name: str, dimensions: int) -> None:
    first = build(name, dimensions).state_dict()
    second = build_network(name, channels=1, classes=3, dimensions=dimensions, filters=4)
    again = build(name, dimensions).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], second.state_dict()["head.weight"])


@every_network
def test_the_same_crops_give_the_same_gradients(name: str, dimensions: int) -> None:
    gradients = []
    for _ in range(2):
        network = build(name, dimensions)
        network(crops(network)).square().mean().backward()
        gradients.append([p.grad for p in network.parameters()])
    assert all(map(torch.equal, *gradients))


@every_network
def test_table_knows_the_stride(name: str, dimensions: int) -> None:
    own = NETWORKS[name].own_strides(dimensions)
    assert build(name, dimensions).stride == total_stride(own)


@every_network
def test_smallest_crop_that_passes_the_check_runs(name: str, dimensions: int) -> None:
    network = build(name, dimensions)
    batch = crops(network, count=1)
    check_crop(name, batch.shape[2:])
    assert network(batch).isfinite().all()


def test_crop_that_cannot_be_halved_names_axis_and_nearest_sizes() -> None:
    # 90 = 5 * 16 + 10: between 80 and 96.
    message = (
        "crop (90, 96, 96) cannot be halved 4 times on axis 0, as 'vnet' does; "
        "the nearest sizes that can are 80 and 96"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        check_crop("vnet", (90, 96, 96))


def test_crop_smaller_than_the_stride_has_one_nearest_size() -> None:
    with pytest.raises(UserError, match=r"on axis 1, as 'light-unet' does; .* size that can is 8$"):
        check_crop("light-unet", (64, 7))


def test_every_axis_that_does_not_fit_is_named() -> None:
    with pytest.raises(UserError, match=r"(?s)^2 problems:.*axis 0.* 32 and 48.*axis 2.* is 16$"):
        check_crop("unet", (40, 48, 4))


def test_crop_with_a_single_coarsest_voxel_is_refused() -> None:
    with pytest.raises(UserError, match=r"a single voxel .* one axis at least 32"):
        check_crop("unet", (16, 16, 16))


@pytest.mark.parametrize("crop", [(96, 96, 96), (112, 112, 80), (32, 16, 16)])
def test_crop_that_fits_passes(crop: tuple[int, ...]) -> None:
    check_crop("vnet", crop)
    odd = (crop[0] + 1, *crop[1:])
    with pytest.raises(UserError, match="axis 0"):
        check_crop("vnet", odd)


def test_unknown_network_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"'v-net' does not exist; did you mean 'vnet'\?"):
        build_network("v-net", channels=1, classes=2, dimensions=3, filters=4)
    with pytest.raises(UserError, match="there are light-unet, monai:NAME, transunet, unet, vnet"):
        check_crop("segmenter", (96, 96, 96))


def test_vnet_in_2d_says_what_to_use_instead() -> None:
    message = "network 'vnet' does not exist in 2D; use 'unet' or 'light-unet' or 'transunet'"
    with pytest.raises(UserError, match=f"^{message}$"):
        build_network("vnet", channels=1, classes=2, dimensions=2, filters=4)
    with pytest.raises(UserError, match=f"^{message}$"):
        check_crop("vnet", (96, 96))


def test_crop_with_four_axes_is_refused() -> None:
    with pytest.raises(UserError, match="does not exist in 4D; crops have 2 or 3 axes"):
        check_crop("unet", (32, 32, 32, 32))


def test_a_crop_is_measured_by_the_strides_that_are_given() -> None:
    strides = ((2, 2, 1), (2, 2, 2))
    check_crop("light-unet", (12, 4, 2), strides)
    with pytest.raises(UserError, match=r"halved 1 times on axis 2, .* are 2 and 4$"):
        check_crop("light-unet", (12, 4, 3), strides)
    with pytest.raises(UserError, match=r"a single voxel .* one axis at least 8"):
        check_crop("light-unet", (4, 4, 2), strides)


@pytest.mark.parametrize("name", ["vnet", "unet", "monai:UNet"])
def test_only_some_networks_take_strides(name: str) -> None:
    message = (
        f"network '{name}' takes no network.strides: it goes down its levels in its own way; "
        "leave them out, or use 'light-unet'"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        build_network(name, channels=1, classes=2, dimensions=3, filters=4, strides=((2, 2, 2),))


def test_our_networks_take_no_options() -> None:
    with pytest.raises(
        UserError, match=r"'vnet' takes no network.options, but act, norm was given"
    ):
        build_network(
            "vnet",
            channels=1,
            classes=2,
            dimensions=3,
            filters=4,
            options={"act": "relu", "norm": "batch"},
        )


def test_a_network_without_features_is_refused_in_the_name_of_the_method() -> None:
    message = (
        "method 'cac' needs the feature maps of its network, which Conv2d does not give; "
        "set network.name to one that does: vnet, unet, light-unet, transunet"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        with_features(nn.Conv2d(1, 2, 3), "cac")


def test_the_table_imports_no_torch() -> None:
    program = "import sys, tracoco.networks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_building_our_networks_imports_no_monai() -> None:
    program = "import sys, tracoco.networks.network; sys.exit('monai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
