"""The light UNet: its fast layers equal torch's slow ones, and voxels stay distinct."""

import hashlib
from typing import get_args

import pytest
import torch
from torch import nn

from tracoco.networks.light_unet import (
    Double,
    LightUNet,
    LightUNet2D,
    LightUNet3D,
    Normalisation,
    Pointwise,
    Residual,
)
from tracoco.networks.network import Up, interpolate


def test_size() -> None:
    # Stem 27 * 16 + 32. Halving 16 -> 32: 8 * 16 * 32 + 64; its unit: 27 * 32 * 32 + 64; so on:
    # 464 + (4160 + 27712) + (16512 + 110720) + (65792 + 442624) = 667984.
    # Pointwise decoder, coarse to fine, up and block: 128 * 64 + 64 * 64 + 128 = 12416, then
    # 64 * 32 + 32 * 32 + 64 = 3136, then 32 * 16 + 16 * 16 + 32 = 800. Head: 16 * 2 + 2 = 34.
    # With convolutions each block but the finest has 27 times the kernel: 26 * (64 * 64 + 32 * 32)
    # more.
    network = LightUNet3D(channels=1, classes=2, filters=16)
    assert network.feature_channels == (16, 32, 64, 128)
    assert sum(p.numel() for p in network.encoder.parameters()) == 667_984
    assert sum(p.numel() for p in network.decoder.parameters()) == 16_352 + 133_120
    assert sum(p.numel() for p in network.parameters()) == 667_984 + 16_352 + 133_120 + 34
    pointwise = LightUNet3D(channels=1, classes=2, filters=16, decoder="pointwise")
    assert sum(p.numel() for p in pointwise.decoder.parameters()) == 12_416 + 3_136 + 800


@pytest.mark.parametrize("bias", [True, False])
def test_pointwise_is_a_convolution_with_a_kernel_of_one(*, bias: bool) -> None:
    pointwise = Pointwise(3, 5, bias=bias)
    convolution = nn.Conv3d(3, 5, kernel_size=1, bias=bias)
    convolution.weight.data = pointwise.weight.data.reshape(5, 3, 1, 1, 1)
    if convolution.bias is not None:
        convolution.bias.data = pointwise.bias.data
    maps = torch.randn(2, 3, 4, 5, 6)
    torch.testing.assert_close(pointwise(maps), convolution(maps))


@pytest.mark.parametrize("up", ["linear", "nearest"])
@pytest.mark.parametrize("size", [(5, 4), (3, 1, 4)])
def test_doubling_gives_the_values_of_torchs_interpolation(up: Up, size: tuple[int, ...]) -> None:
    maps = torch.randn(2, 3, *size)
    doubled = Double(up, (2,) * len(size))(maps)
    torch.testing.assert_close(doubled, interpolate(up, len(size))(maps))


@pytest.mark.parametrize("up", ["linear", "nearest"])
@pytest.mark.parametrize("stride", [(2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 1, 2), (2, 1)])
def test_axes_of_stride_one_are_not_doubled(up: Up, stride: tuple[int, ...]) -> None:
    maps = torch.randn(2, 3, *(3, 4, 5)[: len(stride)])
    mode = up if up == "nearest" else {2: "bilinear", 3: "trilinear"}[len(stride)]
    expected = nn.functional.interpolate(maps, scale_factor=stride, mode=mode)
    torch.testing.assert_close(Double(up, stride)(maps), expected)


FLAT = ((2, 1), (2, 2))
THICK = ((2, 2, 1), (1, 2, 2))


def strided(strides: tuple[tuple[int, ...], ...], filters: int = 4) -> LightUNet:
    torch.manual_seed(0)
    network_class = {2: LightUNet2D, 3: LightUNet3D}[len(strides[0])]
    return network_class(channels=1, classes=3, filters=filters, strides=strides)


@pytest.mark.parametrize(
    ("strides", "crop", "maps"),
    [
        (FLAT, (12, 6), [(12, 6), (6, 6), (3, 3)]),
        (THICK, (4, 12, 6), [(4, 12, 6), (2, 6, 6), (2, 3, 3)]),
        (((2, 2, 2),), (6, 4, 2), [(6, 4, 2), (3, 2, 1)]),
    ],
)
def test_strides_say_what_each_level_halves(
    strides: tuple[tuple[int, ...], ...], crop: tuple[int, ...], maps: list[tuple[int, ...]]
) -> None:
    network = strided(strides).eval()
    crops = torch.randn(2, 1, *crop)
    features = network.encode(crops)
    assert [tuple(feature.shape[2:]) for feature in features] == maps
    assert network.feature_channels == (4, 8, 16)[: len(maps)]
    levels = network.decode_levels(features)
    assert [tuple(level.shape[2:]) for level in levels] == maps[-2::-1]
    assert network.stride == tuple(n // m for n, m in zip(crop, maps[-1], strict=True))
    assert torch.equal(network(crops), network.head(network.decode(features)))
    assert network(crops).shape == (2, 3, *crop)


@pytest.mark.parametrize("up", get_args(Up))
@pytest.mark.parametrize(("strides", "crop"), [(FLAT, (12, 6)), (THICK, (4, 12, 6))])
def test_another_decoder_doubles_what_the_encoder_halves(
    up: Up, strides: tuple[tuple[int, ...], ...], crop: tuple[int, ...]
) -> None:
    network = strided(strides).eval()
    features = network.encode(torch.randn(2, 1, *crop))
    maps = network.make_decoder(up)(features)
    assert [m.shape for m in maps] == [m.shape for m in network.decode_levels(features)]
    maps[-1].square().mean().backward()
    for parameter in network.encoder.parameters():
        assert parameter.grad is not None


def test_widths_double_up_to_320_but_three_halvings_are_as_wide_as_ever() -> None:
    assert strided(((2, 2),) * 4, 32).feature_channels == (32, 64, 128, 256, 320)
    assert strided(((2, 2),) * 3, 48).feature_channels == (48, 96, 192, 384)
    assert strided(((2, 2),) * 4, 48).feature_channels == (48, 96, 192, 384, 384)


@pytest.mark.parametrize(
    ("network_class", "size", "weights", "logits"),
    [
        # Sums of sizes, read before there were strides, with the same seeds.
        (LightUNet2D, (32, 16), 861.177244692552, 1547.0880142450333),
        (LightUNet3D, (16, 32, 16), 1238.6229647744049, 17511.215477138758),
    ],
)
def test_without_strides_it_is_the_network_of_old_checkpoints(
    network_class: type[LightUNet], size: tuple[int, ...], weights: float, logits: float
) -> None:
    torch.manual_seed(3)
    network = network_class(
        channels=2, classes=3, filters=4, normalisation="instance", decoder="pointwise"
    ).eval()
    state = network.state_dict()
    assert hashlib.sha256(" ".join(state).encode()).hexdigest()[:16] == "00143fc0c7f7feae"
    assert sum(value.double().abs().sum().item() for value in state.values()) == pytest.approx(
        weights, rel=1e-9
    )
    crops = torch.rand(2, 2, *size, generator=torch.Generator().manual_seed(1))
    assert network(crops).double().abs().sum().item() == pytest.approx(logits, rel=1e-5)
    strides = ((2,) * len(size),) * 3
    told = network_class(
        channels=2,
        classes=3,
        filters=4,
        strides=strides,
        normalisation="instance",
        decoder="pointwise",
    ).eval()
    told.load_state_dict(state)
    assert torch.equal(told(crops), network(crops))


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [("instance", nn.InstanceNorm3d(4)), ("batch", nn.BatchNorm3d(4))],
)
def test_maps_are_normalised_as_the_setting_says(
    normalisation: Normalisation, expected: nn.Module
) -> None:
    network = LightUNet3D(channels=1, classes=2, filters=4, normalisation=normalisation)
    norm = network.encoder.stages[0].get_submodule("1")
    maps = torch.randn(2, 4, 3, 4, 5)
    torch.testing.assert_close(norm(maps), expected(maps))


def test_with_running_statistics_surroundings_reach_a_voxel_through_convolutions_alone() -> None:
    def middle_changes(normalisation: Normalisation) -> bool:
        torch.manual_seed(0)
        network = LightUNet2D(
            channels=1, classes=2, filters=4, strides=((2, 2),), normalisation=normalisation
        ).eval()
        crops = torch.randn(1, 1, 64, 64)
        changed = crops.clone()
        changed[..., :8] += 5.0
        here = (..., slice(24, 40), slice(32, 48))
        return not torch.allclose(network(crops)[here], network(changed)[here], atol=1e-5)

    assert middle_changes("instance")
    assert not middle_changes("batch")


def test_residual_unit_passes_its_input_on() -> None:
    unit = Residual(width=2, dimensions=2, norm=nn.BatchNorm2d)
    for parameter in unit.parameters():
        nn.init.zeros_(parameter)
    maps = torch.rand(1, 2, 4, 4)
    assert torch.equal(unit(maps), maps)


def test_with_instance_normalisation_only_dropout_differs_between_training_and_test() -> None:
    network = LightUNet2D(channels=1, classes=2, filters=4, normalisation="instance")
    crops = torch.randn(3, 1, 16, 16)
    tested = network.eval()(crops)
    for module in network.train().modules():
        if isinstance(module, nn.Dropout2d):
            module.p = 0.0
    assert torch.equal(network(crops), tested)
    assert not list(network.buffers())


def test_training_drops_whole_coarsest_channels() -> None:
    torch.manual_seed(0)
    network = LightUNet2D(channels=1, classes=2, filters=16)
    coarsest = network.encode(torch.randn(8, 1, 16, 16))[-1]
    silent = (coarsest == 0).flatten(2).all(dim=2).float().mean().item()
    assert silent == pytest.approx(0.1, abs=0.03)  # 1024 channels: 0.1 give or take 0.01


def test_neighbouring_voxels_get_their_own_logits() -> None:
    # A checkerboard is finer than any coarse map: only the finest level can tell its colours apart.
    torch.manual_seed(0)
    network = LightUNet2D(channels=1, classes=2, filters=8).eval()
    board = (torch.arange(16)[:, None] + torch.arange(16)) % 2
    logits = network(board.float()[None, None])[0, 0]
    inner = logits[4:12, 4:12]
    black, white = inner[board[4:12, 4:12] == 0], inner[board[4:12, 4:12] == 1]
    assert (black.mean() - white.mean()).abs() > 3 * max(black.std(), white.std())


def test_runs_in_half_precision() -> None:
    network = LightUNet3D(channels=1, classes=2, filters=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = network(torch.randn(1, 1, 16, 8, 8))
    assert logits.isfinite().all()
