"""Rearranged networks say what the plain ones say."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from tracoco.inference.folding import fast_network, ready_to_predict
from tracoco.methods import build_method
from tracoco.methods.method import Method, RunFacts, evaluating
from tracoco.networks import build_network
from tracoco.settings import MethodChoice


def settled(network: nn.Module) -> nn.Module:
    """The network with norms that are no longer those of the start, in evaluation."""
    generator = torch.Generator().manual_seed(3)
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d | nn.BatchNorm3d):
            for value in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
                if value is not None:
                    value.data.copy_(torch.rand(len(value), generator=generator) + 0.5)
    return network.eval()


def vnet_method(name: str) -> Method:
    facts = RunFacts(2, 1, 3, total_steps=10, steps_per_epoch=1, unlabelled_batch=2)
    network = partial(build_network, "vnet", channels=1, classes=2, dimensions=3, filters=2)
    torch.manual_seed(0)
    return build_method(MethodChoice(name=name), network, facts)


def assert_same(network: nn.Module, crops: Tensor) -> nn.Module:
    """The rearranged network, after it was seen to say the same."""
    fast = fast_network(network)
    with torch.no_grad():
        torch.testing.assert_close(fast(crops), network(crops), rtol=1e-4, atol=1e-5)
    return fast


def norms(network: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d | nn.BatchNorm3d) for part in network.modules())


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_a_folded_pair_by_hand() -> None:
    # 3x + 1, less the mean 5, by the deviation 2 (variance 4 - eps), times 10, plus 7: 15x - 13.
    convolution, norm = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, eps=1.0)
    for value, tensor in [(3, convolution.weight), (1, convolution.bias), (10, norm.weight)]:
        assert tensor is not None
        nn.init.constant_(tensor, value)
    nn.init.constant_(norm.bias, 7)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.fill_(5)
    norm.running_var.fill_(3)
    fast = fast_network(nn.Sequential(convolution, norm).eval())
    assert isinstance(fast, nn.Sequential)
    assert isinstance(fast[1], nn.Identity)
    assert fast(torch.full((1, 1, 1, 1), 2.0)).item() == pytest.approx(15 * 2 - 13)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    ("name", "crop"),
    [
        ("vnet", (32, 16, 16)),
        ("unet", (32, 16)),
        ("unet", (32, 16, 16)),
        ("light-unet", (16, 16, 8)),
        ("light-unet", (16, 16)),
        ("transunet", (32, 16)),
    ],
)
def test_a_network_says_the_same(name: str, crop: tuple[int, ...], classes: int) -> None:
    torch.manual_seed(0)
    network = build_network(
        name, channels=2, classes=classes, dimensions=len(crop), filters=4, crop=crop
    )
    fast = assert_same(settled(network), random(2, 2, *crop))
    assert norms(fast) == 0


def test_a_network_of_monai_says_the_same() -> None:
    pytest.importorskip("monai")
    crop = (16, 16, 16)
    network = build_network(
        "monai:AttentionUnet", channels=1, classes=2, dimensions=3, filters=4, crop=crop
    )
    assert norms(assert_same(settled(network), random(2, 1, *crop))) == 0


@pytest.mark.parametrize("up", ["transpose", "linear", "nearest"])
def test_other_decoders_say_the_same(up: Any) -> None:
    network = build_network("vnet", channels=1, classes=2, dimensions=3, filters=2)
    network.decoder = network.make_decoder(up)  # type: ignore[operator]  # a Network
    assert norms(assert_same(settled(network), random(1, 1, 32, 16, 16))) == 0


class Reader(nn.Module):
    """Looks at what lies between the layers of a chain that it never calls as one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)

    def forward(self, crops: Tensor) -> Tensor:
        between: Tensor = self.first(crops)
        both: Tensor = between + self.norm(between)
        return both


class Doubled(nn.Conv2d):
    """A convolution with a mind of its own."""

    def forward(self, crops: Tensor) -> Tensor:
        return 2 * super().forward(crops)


class Residual(nn.Sequential):
    """Not one layer after the other alone."""

    def forward(self, crops: Tensor) -> Tensor:
        for layer in self:
            crops = crops + layer(crops)
        return crops


def shared_norm() -> nn.Module:
    norm = nn.BatchNorm2d(1)
    return nn.Sequential(nn.Conv2d(1, 1, 1), norm, nn.ReLU(), nn.Conv2d(1, 1, 3), norm)


def shared_activation() -> nn.Module:
    activation = nn.ReLU()
    return nn.Sequential(activation, nn.Conv2d(1, 2, 1), activation, nn.BatchNorm2d(2))


def hooked() -> nn.Module:
    layer = nn.Conv2d(1, 2, 3)
    layer.register_forward_hook(lambda _module, _crops, prediction: 3 * prediction)
    return nn.Sequential(layer, nn.BatchNorm2d(2))


@pytest.mark.parametrize(
    "network",
    [
        Reader(),
        nn.Sequential(Doubled(1, 2, 3), nn.BatchNorm2d(2)),
        Residual(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)),
        shared_norm(),
        shared_activation(),
        hooked(),
        nn.Sequential(weight_norm(nn.Conv2d(1, 2, 3)), nn.BatchNorm2d(2)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)),
        nn.Sequential(nn.Conv2d(1, 4, 1), nn.ConvTranspose2d(4, 4, 2, groups=2), nn.BatchNorm2d(4)),
    ],
    ids=[
        *("used in between", "subclass", "residual", "shared norm", "shared activation"),
        *("hooked", "weight norm", "activation between", "no statistics", "groups"),
    ],
)
def test_what_is_not_certain_is_left_as_it_is(network: nn.Module) -> None:
    network = settled(network)
    assert assert_same(network, random(2, 1, 8, 8)) is network


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2, affine=False)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Dropout(0.5), nn.BatchNorm2d(2)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sequential(nn.BatchNorm2d(2), nn.PReLU())),
        nn.Sequential(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 3, groups=2), nn.BatchNorm2d(4)),
    ],
    ids=["neither bias nor weights", "dropout between", "chain in a chain", "groups"],
)
def test_what_is_certain_is_folded(network: nn.Module) -> None:
    assert norms(assert_same(settled(network), random(2, 1, 8, 8))) == 0


def test_the_given_network_stays_as_it_is() -> None:
    network = settled(build_network("vnet", channels=1, classes=2, dimensions=3, filters=2))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    strides = [weight.stride() for weight in network.parameters()]
    network.train()
    fast = fast_network(network)
    with torch.no_grad():
        fast(random(1, 1, 32, 16, 16))
    assert network.training
    assert not fast.training
    after = network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert [weight.stride() for weight in network.parameters()] == strides


def test_channels_come_last_only_where_all_norms_are_folded() -> None:
    def layouts(*layers: nn.Module) -> list[bool]:
        fast = fast_network(nn.Sequential(*layers).eval())
        kernels = [weight for weight in fast.parameters() if weight.dim() == 4]
        return [one.is_contiguous(memory_format=torch.channels_last) for one in kernels]

    pair = (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))
    assert layouts(*pair, nn.Conv2d(4, 2, 3)) == [True, True]
    assert layouts(*pair, nn.InstanceNorm2d(4), nn.Conv2d(4, 2, 3)) == [False, False]
    assert layouts(nn.Conv2d(2, 4, 3)) == [False]


@pytest.mark.parametrize("name", ["tracoco", "mean-teacher", "cac", "supervised"])
def test_every_network_of_a_method_says_the_same(name: str) -> None:
    method = vnet_method(name)
    settled(method).train()
    crops = random(2, 1, 32, 16, 16)
    with evaluating(method):
        expected = [method.predict(crops), *method.predict_members(crops)]
    with ready_to_predict(method) as ready:
        found = [ready.predict(crops), *ready.predict_members(crops)]
        assert norms(ready.inference_network()) == 0
        assert ready is not method
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert not one.requires_grad
    assert method.training
    assert norms(method.inference_network()) > 0


def test_weights_that_moved_since_are_seen() -> None:
    method = vnet_method("supervised")
    crops = random(1, 1, 32, 16, 16)
    with ready_to_predict(method) as ready:
        before = ready.predict(crops)
    for weight in method.parameters():
        weight.data.mul_(1.5)
    with ready_to_predict(method) as ready:
        assert not torch.allclose(ready.predict(crops), before)
