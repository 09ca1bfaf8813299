import copy
import math
from functools import partial

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.methods import build_method
from tracoco.methods.mc_caussl import MCCauSSL
from tracoco.methods.method import RunFacts
from tracoco.methods.parts.independence import dependence
from tracoco.networks import build_network
from tracoco.settings import MethodChoice

PAST_THE_RAMP = 1000
UNSURE = 2 * ((0.36 / 0.52 - 0.6) ** 2) / 2
"""Of (0.6, 0.4) and itself squared and divided by the sum, mean over two classes."""


class Told(nn.Module):
    """Decoders that give every voxel the same logits."""

    def __init__(self, *probabilities: tuple[float, ...]) -> None:
        super().__init__()
        self.logits = nn.ParameterList(torch.tensor(each).log() for each in probabilities)

    def forward(self, crops: Tensor) -> list[Tensor]:
        shape = (len(crops), -1, *crops.shape[2:])
        one = (1, -1, *[1] * (crops.ndim - 2))
        return [each.reshape(one).expand(shape) for each in self.logits]


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> MCCauSSL:
    method = make_method("mc-caussl", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, MCCauSSL)
    return method


def make_with(network: str, dimensions: int) -> MCCauSSL:
    facts = RunFacts(2, 1, dimensions, total_steps=30, steps_per_epoch=1, unlabelled_batch=2)
    build = partial(build_network, network, channels=1, classes=2, dimensions=dimensions, filters=4)
    method = build_method(MethodChoice(name="mc-caussl"), build, facts)
    assert isinstance(method, MCCauSSL)
    return method


def test_the_consistency_by_hand_and_its_ramp() -> None:
    method = make()
    pairs = method.pairs()
    method.pairs = lambda: pairs  # type: ignore[method-assign]  # of the true decoders
    method.decoders = Told(*[(0.6, 0.4)] * 3)  # type: ignore[assignment]  # a stand-in
    # Six fifths of 30 steps; the run ends before the ramp does.
    for step, ramp in [(0, math.exp(-5)), (18, math.exp(-1.25)), (36, 1.0)]:
        found = method(make_batch(), step).terms["consistency"].item()
        assert found == pytest.approx(0.2 * ramp * 6 * UNSURE, rel=1e-4)


def test_a_target_teaches_only_the_other_decoders() -> None:
    method = make()
    pairs = method.pairs()
    method.pairs = lambda: pairs  # type: ignore[method-assign]  # of the true decoders
    told = Told((0.6, 0.4), (0.8, 0.2), (0.8, 0.2))
    method.decoders = told  # type: ignore[assignment]  # a stand-in
    method(make_batch(), 36).terms["consistency"].backward()
    # Twice (p - 0.64 / 0.68)^2 at p = 0.6, where p has slope 0.24, with a weight of 0.2.
    slope = 0.2 * 2 * 2 * (0.6 - 0.64 / 0.68) * 0.24
    gradient = told.logits[0].grad
    assert gradient is not None
    assert gradient.tolist() == pytest.approx([slope, -slope], rel=1e-4)


def test_labelled_crops_and_padding_are_not_compared() -> None:
    method = make()
    batch = make_batch()
    batch.first.valid[2:] = False
    terms = method(batch, 36).terms
    assert terms["consistency"].item() == 0.0
    assert terms["supervised"].item() > 0.0


@pytest.mark.parametrize(("network", "dimensions"), [("vnet", 3), ("unet", 2), ("unet", 3)])
def test_each_decoders_filters_are_compared_with_those_of_both_others(
    network: str, dimensions: int
) -> None:
    method = make_with(network, dimensions)
    pairs = method.pairs()
    heads = [next(branch.head.parameters()).flatten(1) for branch in method.decoders.branches]
    own, others = pairs[-2]
    assert own.data_ptr() == heads[1].data_ptr()
    assert torch.equal(others, torch.cat([heads[0], heads[2]]))
    for own, others in pairs:
        assert others.shape == (2 * len(own), own.shape[1])
        assert own.requires_grad
        assert not others.requires_grad


@pytest.mark.parametrize("classes", [2, 4])
def test_the_term_is_six_times_the_sum_over_decoders(classes: int) -> None:
    method = make(2, classes)
    layers = method.independence.combinations.part.layers
    expected = [
        dependence(*pair, layer) for pair, layer in zip(method.pairs(), layers, strict=True)
    ]
    found = method(make_batch(2, classes), 60).terms["independence"]
    torch.testing.assert_close(found, 6.0 * 3 * torch.stack(expected).mean())


def test_independence_teaches_every_decoder_but_no_upsampling_and_no_encoder() -> None:
    method = make_with("vnet", 3)
    (3.0 * method.independence(method.pairs(), 60)).backward()
    for branch in method.decoders.branches:
        layers = [*branch.decoder.blocks.parameters(), *branch.head.parameters()]
        kernels = [p for p in layers if p.dim() > 1]
        assert all(p.grad is not None and p.grad.any() for p in kernels)
        assert all(p.grad is None for p in branch.decoder.ups.parameters())
    assert all(p.grad is None for p in method.decoders.first.encoder.parameters())


def test_the_search_is_made_before_every_sixtieth_step_and_the_term_starts_with_it() -> None:
    method = make(2)
    batch = make_batch(2)
    before = method.state_dict()["independence.combinations.part.layers.0"].clone()
    for step in (0, 1, 59):
        method.before_step(batch, step)
        assert method(batch, step).terms["independence"].item() == 0.0
    layers = method.independence.combinations.part.layers
    assert torch.equal(layers[0], before)
    early = method(batch, 60).terms["independence"].item()
    method.before_step(batch, 60)
    assert method(batch, 60).terms["independence"].item() > early > 0
    assert not torch.equal(layers[0], before)


def test_the_first_decoder_predicts_unless_asked() -> None:
    assert make().inference_network() is not None
    method = make(2).eval()
    crops = torch.rand(2, 1, 16, 16)
    torch.testing.assert_close(method.predict(crops), method.decoders.first(crops).softmax(dim=1))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_resumed_run_goes_on_alike(dimensions: int, classes: int) -> None:
    settings = {"every": 2, "inner_steps": 3}
    method, other = make(dimensions, classes, **settings), make(dimensions, classes, **settings)
    batch = make_batch(dimensions, classes)
    method.before_step(batch, 2)
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    found = []
    for each in (method, other):
        each.before_step(batch, 4)
        torch.manual_seed(0)
        found.append({name: term.item() for name, term in each(batch, 4).terms.items()})
    assert found[0] == found[1]
