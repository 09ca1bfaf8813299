"""Large blocks are written to again and again during a prediction, and given back after it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tracoco import memory
from tracoco.config import InferenceConfig
from tracoco.inference import sliding_window
from tracoco.inference.sliding_window import predict_volume
from tracoco.memory import GLIBC, freed_memory_kept, reused_blocks

BLOCK_MB = 48


@pytest.mark.skipif(GLIBC is None, reason="of glibc")
def test_freed_blocks_are_written_to_again_and_given_back_at_the_end() -> None:
    script = Path(__file__).with_name("large_blocks.py")
    told = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    found = json.loads(told.stdout)
    assert found["kept_faults"] < found["usual_faults"] / 4
    assert found["kept_mb"] > found["before_mb"] + 0.9 * BLOCK_MB
    assert found["after_mb"] == pytest.approx(found["before_mb"], abs=5)


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "GLIBC", None)
    before = torch.arange(BLOCK_MB)
    with freed_memory_kept(), reused_blocks():
        during = torch.arange(BLOCK_MB)
    assert torch.equal(before, during)


def test_every_batch_of_windows_goes_through_the_network_on_reused_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    @contextmanager
    def noted(name: str) -> Iterator[None]:
        order.append(name)
        yield
        order.append(f"end of {name}")

    def predict(crops: Tensor) -> Tensor:
        order.append("network")
        return torch.ones(len(crops), 2, *crops.shape[2:])

    for name in ("freed_memory_kept", "reused_blocks"):
        monkeypatch.setattr(sliding_window, name, partial(noted, name))
    config = InferenceConfig(overlap=0.0, batch=1)
    predict_volume(predict, torch.zeros(1, 8, 4, 4), (4, 4, 4), config)
    batch = ["reused_blocks", "network", "end of reused_blocks"]
    assert order == ["freed_memory_kept", *batch, *batch, "end of freed_memory_kept"]
