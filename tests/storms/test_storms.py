"""A short storm over the commands; `make storms` runs a long one over all of them."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from storms.states import differences, state_of, varying_kinds
from storms.tally import Tally

SCRIPT = Path(__file__).parents[2] / "scripts" / "run_storms.py"


def storm(*words: str) -> "subprocess.CompletedProcess[str]":
    seed = str(random.randrange(10**6))  # noqa: S311 - no secret
    command = [sys.executable, str(SCRIPT), "--seed", seed, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and watched by /proc")
def test_a_short_storm_loses_nothing() -> None:
    kinds = ("kills", "signals", "writers")
    found = storm("--seconds", "25", "--only", *kinds, "--command", "prepare", "train")
    assert found.returncode == 0, found.stdout + found.stderr[-2000:]
    for kind in ("kill prepare", "signal train", "two writers: train, other options"):
        assert f"| {kind} |" in found.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and watched by /proc")
@pytest.mark.parametrize("kind", ["kills", "signals", "full disk", "writers", "bombs"])
def test_a_storm_of_each_kind_loses_nothing(kind: str) -> None:
    found = storm("--seconds", "120", "--only", kind)
    assert found.returncode == 0, found.stdout + found.stderr[-2000:]


def test_states_tell_what_is_missing_changed_or_too_many(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": [1, {"seconds": 2.5}]}')
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / ".tracoco-lock").write_text("somebody")
    first = state_of(tmp_path)
    assert set(first) == {"a.json x.0", "a.json x.1.seconds", "b.txt "}
    (tmp_path / "a.json").write_text('{"x": [1, {"seconds": 2.6}]}')
    second = state_of(tmp_path)
    varying = varying_kinds(first, second)
    assert varying == {"a.json x.*.seconds"}
    assert differences(first, second, varying) == []
    assert differences(first, second, set()) == ["a.json x.1.seconds is 2.6 and not 2.5"]
    (tmp_path / "b.txt").rename(tmp_path / "c.txt")
    assert differences(first, state_of(tmp_path), varying) == [
        "b.txt  is missing",
        "c.txt  is too many",
    ]


def test_a_tally_counts_and_keeps_what_was_not_survived() -> None:
    tally = Tally()
    tally.add("kill train", "survived", times=3)
    tally.add("kill train", "lost", "killed after 1 s")
    tally.add("bombs", "survived")
    assert tally.counts["kill train"] == Counter(tried=4, survived=3, lost=1)
    assert tally.table().splitlines()[-1] == "| all | 5 | 4 | 1 | 0 | 0 | 0 | 0 |"
    assert tally.failures == ["kill train: lost: killed after 1 s"]
