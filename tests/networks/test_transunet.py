"""TransUNet in its published widths, and small on images of several sizes."""

import pytest
import torch
from torch import nn

from tracoco.networks.transunet import Transformer, TransUNet


def weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(scope="module")
def published() -> TransUNet:
    """The widths of the publication, without memory for them."""
    with torch.device("meta"):
        return TransUNet(channels=3, classes=9, filters=16)


@pytest.fixture
def small() -> TransUNet:
    torch.manual_seed(0)
    return TransUNet(channels=1, classes=2, filters=2)


def test_the_transformer_is_vit_b(published: TransUNet) -> None:
    # A layer: 4 * (768^2 + 768) for attention, 2 * 768 * 3072 + 3072 + 768 behind it, 4 * 768 for
    # the norms: 7,087,872. Around them: projection 1024 * 768 + 768, places 14^2 * 768, norm 1536.
    transformer = published.encoder.stages[-1].get_submodule("1")
    assert isinstance(transformer, Transformer)
    assert len(transformer.layers) == 12
    assert weights(transformer.layers[0]) == 7_087_872
    assert weights(transformer) == 12 * 7_087_872 + 787_200 + 150_528 + 1_536


def test_the_decoder_rises_through_256_128_64_and_16_channels(published: TransUNet) -> None:
    # First 9 * 768 * 512 + 1024 to narrow; then two convolutions a level, the first of which also
    # sees the skip: 9 * (512 + 512) * 256 + 9 * 256^2 + 4 * 256 and so on.
    assert published.feature_channels == (64, 256, 512, 768)
    assert published.decoder_channels == (256, 128, 64, 16)
    assert weights(published.decoder.ups) == 3_539_968
    levels = [weights(block) for block in published.decoder.blocks]
    assert levels == [2_950_144, 737_792, 147_712, 11_584]
    assert weights(published.head) == 9 * 16 * 9 + 9


def test_the_published_model_has_105_million_weights(published: TransUNet) -> None:
    # 11,894,848 in the convolutions, 85,993,728 in the transformer, 7,387,200 in the decoder.
    assert weights(published) == 11_894_848 + 85_993_728 + 7_387_200 + 1_305 == 105_277_081


def test_grey_images_and_four_classes_make_little_difference() -> None:
    # Two channels of 49 * 64 less, five classes of 145 less.
    with torch.device("meta"):
        network = TransUNet(channels=1, classes=4, filters=16)
    assert weights(network) == 105_277_081 - 2 * 49 * 64 - 5 * 145 == 105_270_084


@pytest.mark.parametrize("size", [(32, 16), (48, 80)])
def test_images_of_any_size_that_can_be_halved_four_times(
    small: TransUNet, size: tuple[int, int]
) -> None:
    assert small(torch.randn(1, 1, *size)).shape == (1, 2, *size)
    strides = [size[0] // feature.shape[2] for feature in small.encode(torch.randn(1, 1, *size))]
    assert strides == [2, 4, 8, 16]


def test_the_last_level_merges_with_nothing(small: TransUNet) -> None:
    features = small.eval().encode(torch.randn(1, 1, 32, 32))
    first = small.decoder.blocks[-1].get_submodule("0.0")
    assert isinstance(first, nn.Conv2d)
    assert first.in_channels == small.decoder_channels[-2]
    levels = small.decode_levels(features)
    by_hand = small.decoder.blocks[-1](small.decoder.ups[-1](levels[-2]))
    assert torch.equal(levels[-1], by_hand)


def test_runs_in_half_precision(small: TransUNet) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = small(torch.randn(1, 1, 32, 32))
    assert logits.isfinite().all()
