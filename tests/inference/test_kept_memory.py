"""Large blocks are written to again and again during a prediction, and given back after it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracoco.inference import kept_memory
from tracoco.inference.kept_memory import GLIBC, freed_memory_kept, reused_blocks

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
    monkeypatch.setattr(kept_memory, "GLIBC", None)
    with freed_memory_kept(), reused_blocks():
        pass
