from itertools import count
from typing import Literal

import pytest
import torch

from tracoco.data.batch import Batch
from tracoco.methods.method import StepOutput
from tracoco.methods.tracoco import TraCoCo
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.training.step_cost import step_seconds


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
def test_the_time_of_a_small_crop_is_scaled_to_the_voxels_of_a_large_one(
    dimensions: Literal[2, 3], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each step takes a second, whatever the crop; at most 32 voxels of an axis are tried.
    monkeypatch.setattr("time.perf_counter", count().__next__)
    config = load_config(None, ["network.filters=2", "training.precision=fp32"])
    first = (1, 32, 32) if dimensions == 2 else (16, 32, 32)
    large = (1, 128, 64) if dimensions == 2 else (32, 64, 64)
    assert step_seconds(config, make_plan(dimensions, first)) == 1
    assert step_seconds(config, make_plan(dimensions, large)) == (8 if dimensions == 2 else 4)


def test_a_step_is_timed_in_the_precision_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def forward(self: TraCoCo, batch: Batch, step: int) -> StepOutput:
        seen.append(torch.is_autocast_enabled("cpu"))
        return timed(self, batch, step)

    timed = TraCoCo.forward
    monkeypatch.setattr(TraCoCo, "forward", forward)
    for precision in ("fp32", "bf16"):
        settings = ["network.filters=2", f"training.precision={precision}"]
        step_seconds(load_config(None, settings), make_plan(3, (16, 16, 16)), "cpu")
    assert seen == [False] * 3 + [True] * 3


def test_the_generator_of_the_caller_is_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    step_seconds(load_config(None, ["network.filters=2"]), make_plan(3, (16, 16, 16)))
    assert torch.equal(before, torch.random.get_rng_state())
