import copy

import pytest
import torch
from torch import Tensor, nn

from tracoco.networks.network import Recomputed
from tracoco.training.bf16_layers import follow_autocast, keep_in_fp32, stays_in_fp32

MAPS = torch.rand(2, 4, 8, 8, 8, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv3d(4, 8, 3), nn.ConvTranspose3d(8, 4, 2, stride=2))


def half(module: nn.Module, maps: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result: Tensor = module(maps)
    return result


@pytest.mark.parametrize("place", [0, 1])
def test_a_kept_layer_rounds_only_what_it_gives(place: int) -> None:
    layer = network()[place]
    maps = MAPS if place == 0 else MAPS.repeat(1, 2, 1, 1, 1)
    keep_in_fp32(layer)
    assert torch.equal(half(layer, maps), layer(maps))
    rounded = maps.bfloat16()
    assert torch.equal(half(layer, rounded), layer(rounded.float()).bfloat16())


def test_it_survives_a_deep_copy_and_renames_no_weight() -> None:
    plain, kept = network(), network()
    keep_in_fp32(kept[0])
    assert list(kept.state_dict()) == list(plain.state_dict())
    teacher = copy.deepcopy(kept)
    assert [stays_in_fp32(layer) for layer in teacher] == [True, False]
    with torch.no_grad():
        teacher[0].get_parameter("weight").zero_()
    assert half(teacher[0], MAPS).std() < half(kept[0], MAPS).std()  # it computes with its own
    assert type(teacher[0]) is nn.Conv3d


def test_it_can_be_undone() -> None:
    layer = network()[0]
    keep_in_fp32(layer)
    follow_autocast(layer)
    assert not stays_in_fp32(layer)
    assert half(layer, MAPS).dtype == torch.bfloat16


def test_a_recomputed_pass_has_the_same_gradient() -> None:
    gradients = []
    for lean in (False, True):
        made = network().train()
        keep_in_fp32(made[0])
        if lean:
            made.forward = Recomputed(made)  # type: ignore[method-assign]  # as arranged
        half(made, MAPS).float().square().sum().backward()
        gradients.append([weight.grad for weight in made.parameters()])
    for plain, again in zip(*gradients, strict=True):
        assert plain is not None
        assert again is not None
        assert torch.equal(plain, again)


def test_torch_can_compile_it() -> None:
    made = network()
    keep_in_fp32(made[0])
    expected = half(made, MAPS)
    made.compile(backend="aot_eager", fullgraph=True)
    assert torch.equal(half(made, MAPS), expected)
