"""500 scans of 64^3 through `tracoco prepare`: memory, a second time, and killed in the middle."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nibabel
import numpy as np
import pytest

from tracoco.project.create import init_project
from tracoco.project.folder import Project

SIDE = 64
MANY = 500
GROWTH_MB = 16
"""More than memory scatters, and a small part of the 472 MB that 450 such scans would take."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]


def write_scans(root: Path, count: int) -> Path:
    """Uncompressed scans: one block of noise, shifted by as many rows as the scan's number."""
    noise = np.random.default_rng(0).normal(100, 20, (SIDE,) * 3).astype(np.int16)
    for folder in ("images", "labels"):
        (root / folder).mkdir(parents=True)
    for index in range(count):
        image = np.roll(noise, index, axis=(0, 1)[index // SIDE % 2]) + np.int16(index)
        nibabel.save(nibabel.Nifti1Image(image, np.eye(4)), root / "images" / f"{index:03d}.nii")
        if index < 4:
            label = (image > 120 + index).astype(np.uint8)
            nibabel.save(
                nibabel.Nifti1Image(label, np.eye(4)), root / "labels" / f"{index:03d}.nii"
            )
    return root


def make_project(root: Path, count: int) -> Project:
    return init_project(write_scans(root / "data", count), root / "project", validation=1)


def start(project: Project) -> "subprocess.Popen[bytes]":
    words = ["prepare", str(project.root), "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "tracoco", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def anonymous_mb(process: int) -> float:
    """What a process holds and no file backs, in MB."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0


def peaks(project: Project) -> tuple[float, float]:
    """The most that the command itself and the largest of its processes hold while it prepares."""
    command = start(project)
    own, worker = 0.0, 0.0
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    while command.poll() is None:
        own = max(own, anonymous_mb(command.pid))
        try:
            ids = [int(id_) for id_ in children.read_text().split()]
        except OSError:  # it has just ended
            break
        worker = max([worker, *map(anonymous_mb, ids)])
        time.sleep(0.02)
    assert command.wait() == 0
    return own, worker


def done(project: Project) -> dict[str, int]:
    """The files of the cases that are finished, with their times."""
    facts = [file for file in project.store_root.glob("*.json") if file.name[0] != "."]
    return {file.name: file.stat().st_mtime_ns for file in facts}


def processor_seconds() -> float:
    """Of all processes that were started and have ended; others do not make it longer."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("many"), MANY)


def test_memory_is_that_of_a_tenth_of_the_scans_and_a_second_time_takes_none(
    many: Project, tmp_path: Path
) -> None:
    few = peaks(make_project(tmp_path, MANY // 10))
    shutil.rmtree(many.store_root, ignore_errors=True)
    all_ = peaks(many)
    for less, more in zip(few, all_, strict=True):
        assert more - less < GROWTH_MB, f"MB of the command, of a process: {few}, then {all_}"
    before = done(many)
    assert len(before) == MANY
    began = processor_seconds()
    assert start(many).wait() == 0
    assert processor_seconds() - began < 5
    assert done(many) == before


def test_killed_in_the_middle_it_goes_on_with_what_is_left(many: Project) -> None:
    shutil.rmtree(many.store_root, ignore_errors=True)
    command = start(many)
    while len(done(many) if many.store_root.exists() else ()) < 60:
        assert command.poll() is None
        time.sleep(0.02)
    command.kill()
    command.wait()
    time.sleep(1)  # its processes end once nobody asks them any more
    kept = done(many)
    assert 60 <= len(kept) < MANY
    assert start(many).wait() == 0
    after = done(many)
    assert len(after) == MANY
    assert {name: after[name] for name in kept} == kept
