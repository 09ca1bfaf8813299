"""Averaged weights, against averages computed by hand."""

import pytest
import torch
from torch import nn

from tracoco.training.optimizer import AveragedWeights


class Bank(nn.Module):
    """A layer with weights, BatchNorm, and a buffer that is no statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.norm = nn.BatchNorm1d(1)
        self.register_buffer("queue", torch.zeros(2))


def moved(module: Bank, value: float) -> None:
    module.weight.data.fill_(value)
    assert module.norm.running_mean is not None
    module.norm.running_mean.fill_(10 * value)


def test_the_average_warms_up_and_then_keeps_the_decay() -> None:
    module = Bank()
    averaged = AveragedWeights(module, 0.25)
    moved(module, 1.0)
    averaged.update(0)  # keeps 1 / 10
    assert averaged.state_dict()["weight"].item() == pytest.approx(0.9)
    moved(module, 2.0)
    averaged.update(1)  # keeps 2 / 11: 0.9 * 2 / 11 + 2 * 9 / 11
    assert averaged.state_dict()["weight"].item() == pytest.approx(1.8)
    moved(module, 4.0)
    averaged.update(1000)  # keeps the decay: 1.8 / 4 + 4 * 3 / 4
    assert averaged.state_dict()["weight"].item() == pytest.approx(3.45)
    assert averaged.state_dict()["norm.running_mean"].item() == pytest.approx(34.5)


def test_counters_and_banks_are_not_averaged() -> None:
    names = set(AveragedWeights(Bank(), 0.9).state_dict())
    assert names == {
        "weight",
        *(f"norm.{name}" for name in ("weight", "bias", "running_mean", "running_var")),
    }


def test_the_module_has_the_average_inside_and_its_own_weights_afterwards() -> None:
    module = Bank()
    averaged = AveragedWeights(module, 0.5)
    moved(module, 1.0)
    averaged.update(1000)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    with averaged.applied():
        assert module.weight.item() == 0.5
        assert module.norm.running_mean is not None
        assert module.norm.running_mean.item() == 5.0
    assert module.weight.item() == 1.0
    assert averaged.state_dict()["weight"].item() == 0.5
    module.weight.grad = torch.ones(1)
    optimizer.step()
    assert module.weight.item() == 0.0
    averaged.update(1000)
    assert averaged.state_dict()["weight"].item() == 0.25


def test_an_error_inside_gives_the_weights_back() -> None:
    module = Bank()
    averaged = AveragedWeights(module, 0.5)
    moved(module, 1.0)
    with pytest.raises(RuntimeError, match="boom"), averaged.applied():
        raise RuntimeError("boom")
    assert module.weight.item() == 1.0
