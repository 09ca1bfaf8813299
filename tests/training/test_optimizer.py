"""The learning rate of each step, against values computed by hand."""

import pytest

from tracoco.config import OptimizerConfig
from tracoco.training.optimizer import learning_rate


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


@pytest.mark.parametrize("schedule", ["poly", "cosine"])
def test_a_run_of_one_step_has_a_rate(schedule: str) -> None:
    config = OptimizerConfig.model_validate({"lr": 0.3, "schedule": schedule, "warmup": 0.4})
    assert learning_rate(0, 1, config) == 0.3


def test_each_optimizer_brings_its_own_settings_and_keeps_those_that_are_given() -> None:
    adamw = OptimizerConfig(name="adamw", weight_decay=0.5)
    assert (adamw.lr, adamw.schedule, adamw.warmup) == (2e-3, "cosine", 0.05)
    assert adamw.weight_decay == 0.5
    sgd = OptimizerConfig(name="sgd")
    assert (sgd.lr, sgd.weight_decay, sgd.schedule, sgd.warmup) == (0.05, 5e-4, "poly", 0.0)
