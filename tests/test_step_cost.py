from typing import Literal

import pytest
import torch

from tracoco.experiment.step_cost import step_cost
from tracoco.presets import load_config
from tracoco.project.plan import Plan


def make_plan(dimensions: Literal[2, 3], crop: tuple[int, int, int]) -> Plan:
    return Plan(
        dimensions=dimensions,
        channels=1,
        label_values=(0, 1, 2),
        class_names=("background", "one", "two"),
        slice_axis=2 if dimensions == 2 else None,
        spacing_mm=(1, 1, 1),
        crop=crop,
    )


@pytest.mark.parametrize("dimensions", [2, 3])
def test_time_and_memory_grow_with_the_voxels_of_a_crop(dimensions: Literal[2, 3]) -> None:
    config = load_config(None, ["network.filters=2"])
    first = (1, 32, 32) if dimensions == 2 else (16, 32, 32)
    large = (1, 128, 128) if dimensions == 2 else (32, 64, 64)
    small_cost = step_cost(config, make_plan(dimensions, first))
    large_cost = step_cost(config, make_plan(dimensions, large))
    grown = (128 / 32) ** 2 if dimensions == 2 else 8
    assert small_cost.seconds > 0
    # The weights are the same, whatever the crop.
    assert 0.6 * grown < large_cost.memory_bytes / small_cost.memory_bytes < 1.1 * grown


def test_the_memory_is_that_of_both_networks_and_their_maps() -> None:
    config = load_config(None, ["network.filters=4"])
    wider = load_config(None, ["network.filters=8"])
    plan = make_plan(3, (16, 16, 16))
    ratio = step_cost(wider, plan).memory_bytes / step_cost(config, plan).memory_bytes
    assert 1.5 < ratio < 4


def test_the_generator_of_the_caller_is_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    step_cost(load_config(None, ["network.filters=2"]), make_plan(3, (16, 16, 16)))
    assert torch.equal(before, torch.random.get_rng_state())
