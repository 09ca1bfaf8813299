"""The VNet of the paper, block by block."""

import pytest
import torch
from torch import nn

from tracoco.networks.vnet import VNet


def weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(scope="module")
def vnet() -> VNet:
    return VNet(channels=1, classes=2, filters=16)


def test_total(vnet: VNet) -> None:
    # Table of model sizes in the paper: 9.44 M, cut off rather than rounded.
    assert weights(vnet) == 9_448_866


def test_encoder_blocks(vnet: VNet) -> None:
    # First block: 27 * 16 + 16 for the convolution, 2 * 16 for the normalisation.
    assert weights(vnet.encoder.stages[0]) == 480
    # Second: halving 16 -> 32 with 8 * 16 * 32 + 32 + 2 * 32; then two of 27 * 32 * 32 + 32 + 64.
    parts = [[weights(part) for part in stage.children()] for stage in vnet.encoder.stages][1:]
    assert parts == [
        [4_192, 55_488],
        [16_576, 332_352],
        [65_920, 1_328_256],
        [262_912, 5_310_720, 0],
    ]


def test_decoder_blocks(vnet: VNet) -> None:
    assert [weights(up) for up in vnet.decoder.ups] == [262_528, 65_728, 16_480, 4_144]
    assert [weights(block) for block in vnet.decoder.blocks] == [1_328_256, 332_352, 55_488, 6_960]
    assert weights(vnet.head) == 34


def test_second_decoder_has_the_size_of_mutual_consistency_networks(vnet: VNet) -> None:
    # 3x3x3 after interpolation: 27 * 32 * 16 + 16 + 2 * 16 = 13872 at the finest level, and so on:
    # 885120 + 221376 + 55392 + 13872 + blocks of 1723056. With a head of 34 and the first
    # network, 12.35 M, the published size of MC-Net.
    assert weights(vnet.make_decoder("linear")) == 2_898_816
    assert weights(vnet.make_decoder("nearest")) == 2_898_816
    assert weights(vnet.make_decoder("transpose")) == weights(vnet.decoder)


def test_dropout_takes_whole_channels_behind_the_coarsest_and_the_last_block() -> None:
    torch.manual_seed(0)
    network = VNet(channels=1, classes=2, filters=8)
    features = network.encode(torch.randn(2, 1, 32, 16, 16))
    last = network.decode(features)
    for map_, channels in ((features[-1], 2 * 128), (last, 2 * 8)):
        silent = int((map_ == 0).flatten(2).all(dim=2).sum())
        assert 0.25 * channels < silent < 0.8 * channels  # half, give or take
    assert not (features[-2] == 0).flatten(2).all(dim=2).any()


def test_nothing_is_dropped_at_test_time() -> None:
    network = VNet(channels=1, classes=2, filters=2).eval()
    crops = torch.randn(1, 1, 32, 16, 16)
    assert torch.equal(network(crops), network(crops))


def test_skips_are_added() -> None:
    network = VNet(channels=1, classes=2, filters=2)
    first, second = torch.randn(2, 1, 2, 4, 4, 4).unbind()
    assert torch.equal(network.decoder.merge(first, second), first + second)
