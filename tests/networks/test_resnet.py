import pytest
import torch
from torch import nn

from tracoco.networks.transunet import Bottleneck, StandardisedConvolution, root, stage


def weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_kernels_are_standardised_so_their_scale_and_offset_do_not_matter() -> None:
    torch.manual_seed(0)
    convolution = StandardisedConvolution(3, 4, 3, padding=1, bias=False)
    maps = torch.randn(1, 3, 5, 5)
    before = convolution(maps)
    with torch.no_grad():
        convolution.weight.mul_(7).add_(2)
    torch.testing.assert_close(convolution(maps), before, rtol=1e-3, atol=1e-3)


def test_a_standardised_kernel_by_hand() -> None:
    # Kernel (1, 3): mean 2, variance 1, so (-1, 1); of the map (10, 4) it makes -6.
    convolution = StandardisedConvolution(2, 1, 1, bias=False)
    convolution.weight.data = torch.tensor([1.0, 3.0]).reshape(1, 2, 1, 1)
    maps = torch.tensor([10.0, 4.0]).reshape(1, 2, 1, 1)
    assert convolution(maps).item() == pytest.approx(-6, abs=1e-3)


def test_stages_have_the_weights_of_a_resnet_50() -> None:
    # Root: 49 * 3 * 64 + 128. First bottleneck of the first stage: 64 * 64 + 9 * 64 * 64 + 64 * 256
    # and the shortcut's 64 * 256, with 128 + 128 + 512 + 512 for the norms: 75,008.
    assert weights(root(3, 64)) == 9_536
    assert weights(Bottleneck(64, 256)) == 75_008
    assert weights(Bottleneck(256, 256)) == 70_400
    assert weights(stage(64, 256, 3, 1)) == 75_008 + 2 * 70_400
    assert weights(stage(256, 512, 4, 2)) == 1_219_584
    assert weights(stage(512, 1024, 9, 2)) == 10_449_920


@pytest.mark.parametrize(("stride", "size"), [(1, (8, 12)), (2, (4, 6))])
def test_the_first_bottleneck_brings_width_and_stride(stride: int, size: tuple[int, int]) -> None:
    assert stage(4, 8, 2, stride)(torch.randn(1, 4, 8, 12)).shape == (1, 8, *size)
    assert root(1, 8)(torch.randn(1, 1, 16, 24)).shape == (1, 8, 8, 12)


def test_a_bottleneck_adds_its_input() -> None:
    block = Bottleneck(8, 8)
    for parameter in block.body.parameters():
        nn.init.zeros_(parameter)
    maps = torch.rand(1, 8, 4, 4)
    assert torch.equal(block(maps), maps)
    assert block(-maps).max() == 0


def test_32_groups_are_normalised_or_as_many_as_divide_the_width() -> None:
    groups = [
        part.num_groups for part in Bottleneck(256, 256).body if isinstance(part, nn.GroupNorm)
    ]
    assert groups == [32, 32, 32]
    small = [part.num_groups for part in Bottleneck(48, 48).body if isinstance(part, nn.GroupNorm)]
    assert small == [4, 4, 16]
