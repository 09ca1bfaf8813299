"""What a step takes at its peak, counted on tensors without values, and as it really is."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from tracoco.data.batch import Batch
from tracoco.methods import METHODS
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.training import step_cost as module
from tracoco.training.step_cost import StepMemory, step_memory

PROGRAM = """
import sys, threading, time
from pathlib import Path
import torch
from test_step_memory import make_plan
from tracoco.training.step_cost import noise_batch
from tracoco.presets import load_config
from tracoco.runs.build import resolved, run_method
from tracoco.processes import StopRequest
from tracoco.training.distributed import Process
from tracoco.training.trainer import Trainer

def held():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

def watch():
    global peak
    while True:
        peak = max(peak, held())
        time.sleep(0.002)

torch.set_num_threads(1)
size = int(sys.argv[1])
plan = make_plan(3, (size, size, size))
config = resolved(load_config(None, sys.argv[2:]), plan)
torch.nn.Conv3d(1, 8, 3)(torch.ones(1, 1, 8, 8, 8)).sum().backward()
before = peak = held()
threading.Thread(target=watch, daemon=True).start()
process = Process(0, 1, torch.device("cpu"))
trainer = Trainer(run_method(config, plan), config, Path("."), process, identity={})
trainer.save = lambda name: None
batch = noise_batch(config, plan, plan.crop)
trainer.fit([batch, batch], None, StopRequest())
print(peak - before)
"""
SMALL = ["network.filters=4", "data.labelled_batch=2", "data.unlabelled_batch=2"]


def make_plan(
    dimensions: Literal[2, 3], crop: tuple[int, int, int], classes: int = 2, channels: int = 1
) -> Plan:
    return Plan(
        dimensions=dimensions,
        channels=channels,
        label_values=tuple(range(classes)),
        class_names=tuple(map(str, range(classes))),
        slice_axis=2 if dimensions == 2 else None,
        spacing_mm=(1, 1, 1),
        crop=crop,
    )


def counted(*settings: str, size: int = 32, classes: int = 2) -> StepMemory:
    plan = make_plan(3, (size,) * 3, classes)
    memory = step_memory(load_config(None, [*SMALL, *settings]), plan)
    assert memory is not None
    return memory


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("checkpointing", ["false", "true"])
@pytest.mark.parametrize(
    ("method", "network", "size"),
    [
        ("tracoco", "vnet", 48),
        ("tracoco", "light-unet", 80),
        ("supervised", "vnet", 80),
        ("supervised", "light-unet", 112),
    ],
)
def test_the_count_is_what_a_step_really_takes(
    method: str, network: str, size: int, checkpointing: str
) -> None:
    settings = [*SMALL, "network.filters=16", f"method.name={method}", f"network.name={network}"]
    settings += [f"training.checkpointing={checkpointing}", "training.steps=2"]
    settings += ["training.unlabelled_weight=scheduled"]  # or they cost nothing
    words = [sys.executable, "-c", PROGRAM, str(size), *settings]
    here = Path(__file__).parent
    # Blocks that are given back leave at once; by default the allocator holds many in reserve.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    result = subprocess.run(
        words, check=True, capture_output=True, text=True, cwd=here, env=environment
    )
    config = load_config(None, settings)
    memory = step_memory(config, make_plan(3, (size,) * 3))
    assert memory is not None
    expected = memory.checkpointed if config.training.checkpointing else memory.kept
    assert expected == pytest.approx(int(result.stdout), rel=0.2)


def test_checkpointing_takes_less_and_half_precision_takes_less_still() -> None:
    full, half = (
        counted("method.name=supervised"),
        counted("method.name=supervised", "training.precision=bf16"),
    )
    assert full.checkpointed < 0.8 * full.kept
    assert half.kept < 0.8 * full.kept


def test_the_count_grows_with_voxels_but_for_the_weights() -> None:
    small, large = (counted("method.name=supervised", size=size).kept for size in (32, 64))
    assert 0.9 * 8 < large / small < 8


def test_weights_gradients_and_momentum_are_counted() -> None:
    # 9.4 million weights in one network of 16 filters, hardly any voxels.
    network = ("network.name=vnet", "network.filters=16")
    settings = ("method.name=supervised", "optimizer.name=sgd", *network)
    with_momentum = counted(*settings)
    without = counted(*settings, "optimizer.momentum=0")
    weights = 4 * 9_448_866
    assert with_momentum.kept - without.kept == weights
    assert without.kept > 2 * weights


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in METHODS])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_method_can_be_counted(name: str, dimensions: Literal[2, 3]) -> None:
    plan = make_plan(dimensions, (1, 32, 32) if dimensions == 2 else (32, 32, 32), classes=4)
    memory = step_memory(load_config(None, [*SMALL, f"method.name={name}"]), plan)
    assert memory is not None
    assert 0 < memory.checkpointed < memory.kept


def test_a_method_that_leaves_torch_is_said_to_be_uncountable() -> None:
    settings = ["method.name=tracoco-as-released", "method.largest_component=true"]
    plan = make_plan(2, (1, 32, 32))
    assert step_memory(load_config(None, [*SMALL, *settings]), plan) is None


@pytest.mark.parametrize("error", [AttributeError("no part"), RuntimeError("sizes differ")])
def test_a_fault_of_a_method_is_not_taken_for_one_of_the_count(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "_step", fail)
    with pytest.raises(type(error), match=str(error)):
        counted("method.name=supervised")


@pytest.mark.parametrize(
    "computation", [torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, np.asarray]
)
def test_a_loss_that_goes_by_values_cannot_be_counted(
    computation: Callable[[torch.Tensor], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_value(_: object, batch: Batch, __: object) -> None:
        computation(batch.first.values.sum())

    monkeypatch.setattr(module, "_step", by_value)
    config = load_config(None, [*SMALL, "method.name=supervised"])
    assert step_memory(config, make_plan(2, (1, 32, 32))) is None


def test_the_generator_of_the_caller_is_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    counted("method.name=supervised")
    assert torch.equal(before, torch.random.get_rng_state())
