"""The page cache is the cache: training needs no more memory for more volumes."""

import subprocess
import sys
from pathlib import Path

import pytest
from samples import write_ball

from tracoco.project.create import init_project
from tracoco.project.prepare import prepare

SHAPE = (32, 32, 32)
PROGRAM = """
import re, sys
from pathlib import Path
import torch
from tracoco.presets import load_config
from tracoco.training.train import train
from tracoco.project.folder import Project

torch.set_num_threads(1)
settings = ["training.steps=13", "network.filters=2", "data.crop=[16, 8, 8]", "data.workers=0"]
settings += ["data.unlabelled_batch=16"]
project = Project(Path(sys.argv[1]))
train(project, load_config(None, settings), project.root / "run", device="cpu")
print(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def anonymous_megabytes(root: Path, volumes: int) -> float:
    for index in range(volumes):
        write_ball(root / "data", f"case{index:03d}", index, labelled=index < 2, shape=SHAPE)
    project = init_project(root / "data", root / "project")
    prepare(project)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(project.root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return int(result.stdout) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's memory figures")
def test_anonymous_memory_does_not_grow_with_the_number_of_volumes(tmp_path: Path) -> None:
    few, many = (anonymous_megabytes(tmp_path / str(count), count) for count in (4, 200))
    # 13 steps of 16 unlabelled crops pass all 200 volumes; held in memory they would take 25 MB.
    assert many - few < 10
