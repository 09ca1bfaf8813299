"""The light UNet: its fast layers equal torch's slow ones, and voxels stay distinct."""

import pytest
import torch
from torch import nn

from tracoco.networks.layers import Up, interpolate
from tracoco.networks.light_unet import Double, LightUNet2D, LightUNet3D, Pointwise, Residual


def test_size() -> None:
    # Stem 27 * 16 + 32. Halving 16 -> 32: 8 * 16 * 32 + 64; its unit: 27 * 32 * 32 + 64; so on:
    # 464 + (4160 + 27712) + (16512 + 110720) + (65792 + 442624) = 667984.
    # Decoder, coarse to fine, up and block: 128 * 64 + 64 * 64 + 128 = 12416, then
    # 64 * 32 + 32 * 32 + 64 = 3136, then 32 * 16 + 16 * 16 + 32 = 800. Head: 16 * 2 + 2 = 34.
    network = LightUNet3D(channels=1, classes=2, filters=16)
    assert network.feature_channels == (16, 32, 64, 128)
    assert sum(p.numel() for p in network.encoder.parameters()) == 667_984
    assert sum(p.numel() for p in network.decoder.parameters()) == 12_416 + 3_136 + 800
    assert sum(p.numel() for p in network.parameters()) == 667_984 + 16_352 + 34


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
    torch.testing.assert_close(Double(up)(maps), interpolate(up, len(size))(maps))


def test_norm_is_that_of_an_instance() -> None:
    norm = LightUNet3D(channels=1, classes=2, filters=4).encoder.stages[0].get_submodule("1")
    maps = torch.randn(2, 4, 3, 4, 5)
    torch.testing.assert_close(norm(maps), nn.InstanceNorm3d(4)(maps))


def test_residual_unit_passes_its_input_on() -> None:
    unit = Residual(width=2, dimensions=2)
    for parameter in unit.parameters():
        nn.init.zeros_(parameter)
    maps = torch.rand(1, 2, 4, 4)
    assert torch.equal(unit(maps), maps)


def test_only_dropout_differs_between_training_and_test() -> None:
    network = LightUNet2D(channels=1, classes=2, filters=4)
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
