"""A ReLU inside of its convolution gives what the two give one after the other."""

import pytest
import torch
from torch import nn

from tracoco.inference.folding import ConvolutionReLU, fuse_relus

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_convolution_pointwise"),
    reason="this build of torch has no fused convolutions",
)


def test_values_by_hand() -> None:
    # 2x - 3 at 1, 2 and -5 is -1, 1 and -13: below zero nothing is left.
    convolution = nn.Conv2d(1, 1, 1)
    nn.init.constant_(convolution.weight, 2)
    assert convolution.bias is not None
    nn.init.constant_(convolution.bias, -3)
    network = nn.Sequential(convolution, nn.ReLU())
    fuse_relus(network)
    assert isinstance(network[0], ConvolutionReLU)
    assert isinstance(network[1], nn.Identity)
    with torch.no_grad():
        prediction = network(torch.tensor([[[[1.0, 2.0, -5.0]]]]))
    assert prediction.flatten().tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("activation", [nn.ReLU(inplace=True), nn.LeakyReLU(0.1, inplace=True)])
@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv3d(4, 6, 3, padding=1),
        nn.Conv3d(4, 6, 2, stride=2, bias=False),
        nn.Conv3d(4, 6, (3, 1, 3), padding=(2, 0, 1), dilation=2, groups=2),
        nn.Conv2d(4, 6, 3, stride=(2, 1)),
    ],
)
def test_every_kind_of_convolution_says_the_same(
    convolution: nn.Conv2d | nn.Conv3d, activation: nn.Module
) -> None:
    generator = torch.Generator().manual_seed(1)
    crops = torch.randn(2, 4, *[12] * (convolution.weight.dim() - 2), generator=generator)
    with torch.no_grad():
        expected = activation(convolution(crops))
        network = nn.Sequential(convolution, nn.Dropout(), activation).eval()
        fuse_relus(network)
        assert isinstance(network[0], ConvolutionReLU)
        torch.testing.assert_close(network(crops), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), nn.ReLU()),
        nn.Sequential(nn.Conv2d(1, 1, 3, padding="same"), nn.ReLU()),
        nn.Sequential(nn.Conv2d(1, 1, 3).double(), nn.ReLU()),
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.PReLU()),
        nn.Sequential(nn.ConvTranspose2d(1, 1, 3), nn.ReLU()),
        nn.ModuleList([nn.Conv2d(1, 1, 3), nn.ReLU()]),
    ],
)
def test_what_cannot_be_fused_is_left_as_it_is(network: nn.Module) -> None:
    before = [type(part) for part in network.modules()]
    fuse_relus(network)
    assert [type(part) for part in network.modules()] == before
