from functools import partial

import pytest
import torch
from torch import nn

from tracoco.errors import UserError
from tracoco.inference.folding import fast_network
from tracoco.methods.parts.decoders import MeanOfDecoders, SeveralDecoders
from tracoco.networks import build_network
from tracoco.networks.network import Up

WAYS_UP: tuple[Up, ...] = ("transpose", "linear", "nearest")


def make(
    name: str = "light-unet", dimensions: int = 3, classes: int = 4, decoders: int = 3
) -> SeveralDecoders:
    torch.manual_seed(0)
    factory = partial(
        build_network, name, channels=1, classes=classes, dimensions=dimensions, filters=4
    )
    return SeveralDecoders("test", factory, WAYS_UP[:decoders])


def crops(dimensions: int) -> torch.Tensor:
    return torch.rand(2, 1, *[16] * dimensions, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("classes", [2, 4])
def test_every_decoder_answers_for_itself(dimensions: int, classes: int) -> None:
    with torch.no_grad():
        predictions = make(dimensions=dimensions, classes=classes).eval()(crops(dimensions))
    assert [tuple(prediction.shape) for prediction in predictions] == [
        (2, classes, *[16] * dimensions)
    ] * 3
    assert not torch.equal(predictions[0], predictions[1])
    assert not torch.equal(predictions[1], predictions[2])


def test_decoders_go_up_in_their_own_ways() -> None:
    transposed = [
        sum(isinstance(part, nn.ConvTranspose3d) for part in branch.decoder.modules())
        for branch in make().branches
    ]
    assert transposed == [3, 0, 0]
    modes = [getattr(part, "mode", None) for part in make().others[1].modules()]
    assert modes.count("nearest") == 3


def test_equal_ways_up_still_begin_with_other_weights() -> None:
    factory = partial(build_network, "light-unet", channels=1, classes=2, dimensions=2, filters=4)
    decoders = SeveralDecoders("test", factory, ("linear", "linear"))
    first, second = decoders.branches
    assert not torch.equal(first.head.weight, second.head.weight)  # type: ignore[arg-type] # a tensor
    own, other = first.decoder.state_dict(), second.decoder.state_dict()
    assert own.keys() == other.keys()
    assert any(not torch.equal(own[key], other[key]) for key in own)


def test_the_first_network_predicts_alone() -> None:
    decoders = make().eval()
    with torch.no_grad():
        expected = decoders(crops(3))[0]
        decoders.others = nn.ModuleList()
        torch.testing.assert_close(decoders.first(crops(3)), expected)


def test_there_is_one_encoder() -> None:
    decoders = make()
    decoders(crops(3))[2].sum().backward()
    used = {
        name.split(".")[0] + "." + name.split(".")[1]
        for name, weight in decoders.named_parameters()
        if weight.grad is not None
    }
    assert used == {"first.encoder", "others.1"}


@pytest.mark.parametrize(("name", "dimensions"), [("vnet", 3), ("unet", 2), ("light-unet", 2)])
def test_the_mean_is_that_of_the_probabilities(name: str, dimensions: int) -> None:
    decoders = make(name, dimensions).eval()
    with torch.no_grad():
        each = [prediction.softmax(dim=1) for prediction in decoders(crops(dimensions))]
        mean = MeanOfDecoders(decoders)
        found = mean(crops(dimensions)).softmax(dim=1)
        fast = fast_network(mean)(crops(dimensions)).softmax(dim=1)
    torch.testing.assert_close(found, (each[0] + each[1] + each[2]) / 3)
    torch.testing.assert_close(fast, found, rtol=1e-4, atol=1e-5)


def test_decoders_that_contradict_each_other_surely_have_a_mean() -> None:
    class Told(nn.Module):
        def forward(self, _: torch.Tensor) -> list[torch.Tensor]:
            logits = torch.tensor([80.0, -80.0]).reshape(1, 2, 1, 1)
            return [logits, -logits]

    mean = MeanOfDecoders(Told())  # type: ignore[arg-type] # a tensor
    assert mean(torch.zeros(1, 1, 1, 1)).softmax(dim=1).flatten().tolist() == [0.5, 0.5]


def test_a_network_without_a_decoder_to_exchange_is_refused() -> None:
    with pytest.raises(UserError, match="method 'test' needs the feature maps"):
        SeveralDecoders("test", lambda: nn.Conv3d(1, 2, 1), ("linear", "nearest"))
