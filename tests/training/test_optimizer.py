"""The learning rate of each step, against values computed by hand."""

import pytest
import torch

from tracoco.config import OptimizerConfig
from tracoco.training.optimizer import build_optimizer, learning_rate


def test_poly_falls_by_its_power_from_the_first_step() -> None:
    config = OptimizerConfig(name="sgd", lr=0.1, poly_power=2.0)
    # The squares of 1, 3 / 4, 1 / 2 and 1 / 4, times 0.1.
    rates = [learning_rate(step, 4, config) for step in range(4)]
    assert rates == pytest.approx([0.1, 0.05625, 0.025, 0.00625])


def test_cosine_warms_up_and_falls_along_half_a_wave() -> None:
    config = OptimizerConfig(name="adamw", lr=1.0, warmup=0.2)
    # Two steps of warm-up, then 8 steps: 1 at their start, 0.5 in their middle.
    rates = [learning_rate(step, 10, config) for step in range(10)]
    assert rates[:3] == pytest.approx([0.5, 1.0, 1.0])
    assert rates[6] == pytest.approx(0.5)
    assert rates[9] == pytest.approx(0.038060, rel=1e-4)  # (1 + cos(7 pi / 8)) / 2
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_step_drops_by_its_factor_after_every_few_steps() -> None:
    config = OptimizerConfig(
        name="sgd", lr=1.0, schedule="step", drop_every=3, drop_factor=0.5, warmup=0.1
    )
    # One step of warm-up, then drops after 3 and 6 further steps.
    rates = [learning_rate(step, 10, config) for step in range(10)]
    assert rates == pytest.approx([1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25])


def test_a_constant_rate_stays() -> None:
    config = OptimizerConfig(name="adam", lr=0.02)
    assert {learning_rate(step, 7, config) for step in range(7)} == {0.02}


def test_with_restart_each_stage_has_a_schedule_of_its_own() -> None:
    config = OptimizerConfig(name="sgd", lr=1.0, poly_power=1.0, restart=True)
    # Two steps of the first stage, then four of the second.
    rates = [learning_rate(step, 6, config, first_stage=2) for step in range(6)]
    assert rates == pytest.approx([1, 0.5, 1, 0.75, 0.5, 0.25])
    through = config.model_copy(update={"restart": False})
    assert learning_rate(3, 6, through, first_stage=2) == pytest.approx(0.5)
    assert learning_rate(3, 6, config) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # Weight 1, gradient 1 in two steps of rate 0.1. Momentum 0.5: 0.9, then -0.1 * 1.5.
        ({"name": "sgd", "momentum": 0.5}, 0.75),
        # Nesterov looks ahead: -0.1 * (1 + 0.5), then -0.1 * (1 + 0.5 * 1.5).
        ({"name": "sgd", "momentum": 0.5, "nesterov": True}, 0.675),
        # Adam takes steps of the rate, whatever the gradient's size.
        ({"name": "adam"}, 0.8),
        # AdamW also shrinks the weight by the rate times its decay: 1 * 0.95 - 0.1, then again.
        ({"name": "adamw", "weight_decay": 0.5}, 0.7075),
    ],
)
def test_two_steps_by_hand(settings: dict[str, object], expected: float) -> None:
    weight = torch.nn.Parameter(torch.ones(()))
    config = OptimizerConfig.model_validate({"lr": 0.1, "weight_decay": 0.0} | settings)
    optimizer = build_optimizer(OneWeight(weight), config)  # type: ignore[arg-type]  # enough of a method
    for _ in range(2):
        weight.grad = torch.ones(())
        optimizer.step()
    assert weight.item() == pytest.approx(expected, abs=1e-5)


class OneWeight:
    def __init__(self, weight: torch.nn.Parameter) -> None:
        self.weight = weight

    def parameter_groups(self) -> list[dict[str, object]]:
        return [{"params": [self.weight]}]


@pytest.mark.parametrize("schedule", ["poly", "cosine", "step", "constant"])
def test_a_run_of_one_step_has_a_rate(schedule: str) -> None:
    config = OptimizerConfig.model_validate({"lr": 0.3, "schedule": schedule, "warmup": 0.4})
    assert learning_rate(0, 1, config) == 0.3


def test_each_optimizer_brings_its_own_settings_and_keeps_those_that_are_given() -> None:
    adamw = OptimizerConfig(name="adamw", weight_decay=0.5)
    assert (adamw.lr, adamw.schedule, adamw.warmup) == (2e-3, "cosine", 0.05)
    assert adamw.weight_decay == 0.5
    sgd = OptimizerConfig(name="sgd")
    assert (sgd.lr, sgd.weight_decay, sgd.schedule, sgd.warmup) == (0.05, 5e-4, "poly", 0.0)
