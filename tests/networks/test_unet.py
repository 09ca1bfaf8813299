"""The two UNets of the paper, block by block."""

import math

import pytest
import torch
from torch import nn

from tracoco.networks.unet import UNet2D, UNet3D


def weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(scope="module")
def unet_3d() -> UNet3D:
    return UNet3D(channels=1, classes=2, filters=16)


@pytest.fixture(scope="module")
def unet_2d() -> UNet2D:
    return UNet2D(channels=1, classes=4, filters=16)


def test_3d_blocks(unet_3d: UNet3D) -> None:
    # First block: 27 * 16 + 16, then 27 * 16 * 16 + 16. Normalisation has no weights.
    encoder = [weights(stage) for stage in unet_3d.encoder.stages]
    assert encoder == [7_376, 41_536, 166_016, 663_808, 2_654_720]
    # First risen block: 128 channels of the skip and 256 from below, to 128 and 128.
    decoder = [weights(block) for block in unet_3d.decoder.blocks]
    assert decoder == [1_769_728, 442_496, 110_656, 27_680]
    assert weights(unet_3d.decoder.ups) == 0
    assert weights(unet_3d.head) == 34
    assert weights(unet_3d) == 5_884_050


def test_2d_halves(unet_2d: UNet2D) -> None:
    assert weights(unet_2d.encoder) == 1_180_464
    assert weights(unet_2d.decoder) + weights(unet_2d.head) == 633_300
    assert weights(unet_2d.head) == 9 * 16 * 4 + 4
    assert weights(unet_2d) == 1_813_764


def test_2d_with_a_transposed_decoder_has_the_size_of_mutual_consistency_networks(
    unet_2d: UNet2D,
) -> None:
    # 2,577,624 is the size of MC-Net in 2D: both decoders, both heads, one encoder.
    second = weights(unet_2d.make_decoder("transpose")) + weights(unet_2d.head)
    assert weights(unet_2d) + second == 2_577_624


def test_3d_weights_have_the_spread_of_kaiming_normal(unet_3d: UNet3D) -> None:
    # Standard deviation sqrt(2 / inputs): the coarsest block sees 27 * 128 of them first.
    coarsest = unet_3d.encoder.stages[-1].get_submodule("1.0").get_parameter("weight")
    risen = unet_3d.decoder.blocks[0].get_submodule("0").get_parameter("weight")
    assert coarsest.std().item() == pytest.approx(math.sqrt(2 / (27 * 128)), rel=0.02)
    assert risen.std().item() == pytest.approx(math.sqrt(2 / (27 * 384)), rel=0.02)


def test_3d_batch_mates_do_not_see_each_other() -> None:
    network = UNet3D(channels=1, classes=2, filters=2).eval()
    crops = torch.randn(2, 1, 32, 16, 16)
    torch.testing.assert_close(network(crops)[:1], network(crops[:1]), atol=1e-3, rtol=1e-3)


def test_3d_dropout_zeroes_a_third_or_so_of_the_last_map() -> None:
    torch.manual_seed(0)
    network = UNet3D(channels=1, classes=2, filters=2)
    features = network.encode(torch.randn(1, 1, 32, 32, 16))
    undropped = network.eval().decode(features)
    dropped = network.train().decode(features)
    kept = undropped > 0  # a rectified map has zeros of its own
    assert (dropped[kept] == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)


def test_3d_interpolates_halfway_and_2d_from_corner_to_corner() -> None:
    # Doubling (0, 1): with aligned corners 0, 1/3, 2/3, 1; otherwise 0, 1/4, 3/4, 1.
    ramp = torch.tensor([0.0, 1.0]).reshape(1, 1, 1, 2).expand(1, 1, 2, 2)
    corners = UNet2D(1, 2, 2).decoder.ups[0].get_submodule("1")
    halfway = UNet3D(1, 2, 2).decoder.ups[0]
    torch.testing.assert_close(corners(ramp)[0, 0, 0], torch.tensor([0, 1 / 3, 2 / 3, 1]))
    torch.testing.assert_close(halfway(ramp[None])[0, 0, 0, 0], torch.tensor([0, 0.25, 0.75, 1]))


def test_skip_channels_come_first() -> None:
    network = UNet3D(1, 2, 2)
    skip, risen = torch.zeros(1, 2, 2, 2, 2), torch.ones(1, 4, 2, 2, 2)
    merged = network.decoder.merge(skip, risen)
    assert merged.mean(dim=(0, 2, 3, 4)).tolist() == [0, 0, 1, 1, 1, 1]
