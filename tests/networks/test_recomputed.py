import copy
from contextlib import nullcontext

import pytest
import torch
from half_precision import needs_bf16
from torch import Tensor, nn

from tracoco.networks import build_network
from tracoco.networks.network import Stages, recomputed
from tracoco.networks.statistics import frozen_statistics
from tracoco.training.acceleration import checkpoint_levels


def both(name: str, dimensions: int) -> tuple[nn.Module, nn.Module]:
    """A network, and the same one with checkpointing."""
    torch.manual_seed(0)
    size = (32,) * dimensions
    plain = build_network(
        name, channels=1, classes=3, dimensions=dimensions, filters=2, crop=size
    ).train()
    lean = copy.deepcopy(plain)
    checkpoint_levels(lean)
    return plain, lean


def after_a_step(network: nn.Module, dimensions: int, *, half: bool) -> list[Tensor]:
    """Gradients and statistics of two passes, the second of which counts no statistics."""
    torch.manual_seed(1)
    crops = torch.rand(2, 1, *(32,) * dimensions)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        first = network(crops)
        with frozen_statistics(network):
            second = network(1 - crops)
    loss = first.float().square().mean() + second.float().square().mean()
    following = torch.rand(())  # dropout must have drawn as much
    loss.backward()
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    assert len(gradients) == len(list(network.parameters()))
    return [*gradients, *network.buffers(), following]


@pytest.mark.parametrize(
    ("name", "dimensions"),
    [("vnet", 3), ("unet", 3), ("unet", 2), ("light-unet", 3), ("light-unet", 2)],
)
@pytest.mark.parametrize("half", [False, pytest.param(True, marks=needs_bf16)])
def test_gradients_and_statistics_are_bitwise_the_same(
    name: str, dimensions: int, *, half: bool
) -> None:
    plain, lean = both(name, dimensions)
    assert any(isinstance(part, Stages) and part.checkpointing for part in lean.modules())
    expected = after_a_step(plain, dimensions, half=half)
    for a, b in zip(expected, after_a_step(lean, dimensions, half=half), strict=True):
        assert torch.equal(a, b)


def test_a_network_without_levels_is_recomputed_as_a_whole_and_keeps_its_names() -> None:
    options = {"norm": "batch", "dropout": 0.3, "num_res_units": 1}
    torch.manual_seed(0)
    plain = build_network(
        "monai:UNet", channels=1, classes=3, dimensions=2, filters=2, crop=(32, 32), options=options
    )
    lean = copy.deepcopy(plain)
    checkpoint_levels(lean)
    assert list(plain.state_dict()) == list(lean.state_dict())
    expected = after_a_step(plain, 2, half=False)
    for a, b in zip(expected, after_a_step(lean, 2, half=False), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("training", [True, False])
def test_only_a_training_computes_twice(*, training: bool) -> None:
    layer = nn.Linear(2, 2).train(training)
    calls = 0

    def compute(values: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return torch.relu(layer(values)).square()

    with nullcontext() if training else torch.no_grad():
        result = recomputed(layer, compute, torch.ones(1, 2))
    if training:
        result.sum().backward()
    assert calls == (2 if training else 1)


def test_a_second_gradient_of_the_same_pass_counts_nothing_either() -> None:
    norm = nn.BatchNorm1d(3)
    crops = torch.rand(4, 3, requires_grad=True)
    loss = recomputed(norm, lambda values: norm(values).square().exp(), crops).sum()
    mean = norm.running_mean
    assert mean is not None
    counted = mean.clone()
    loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(mean, counted)
    assert norm.num_batches_tracked == torch.tensor(1)
    assert norm.momentum == 0.1
