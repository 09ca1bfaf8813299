"""Many small scans through every command, with the time and the memory that each takes.

    python tests/load.py 100 300 1000

prints a table in Markdown. Times are of the processor, since other work on the machine does not
change them.
"""

import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np

SHAPE = (12, 12, 8)
TRACOCO = (sys.executable, "-m", "tracoco")
SETTINGS = ("training.steps=2", "network.filters=2", "data.workers=0", "data.crop=[8,8,8]")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took."""

    seconds: float
    """Of the processor, with all processes that the command started."""
    peak_mb: float
    """Of the largest process."""


def write_scans(folder: Path, count: int) -> None:
    """Bright boxes in noise, each with its label."""
    for number in range(count):
        random = np.random.default_rng(number)
        label = np.zeros(SHAPE, np.uint8)
        label[tuple(slice(a, a + 5) for a in random.integers(1, 3, 3))] = 1
        image = (100 * label + random.normal(50, 20, SHAPE)).astype(np.float32)
        for kind, array in {"images": image, "labels": label}.items():
            path = folder / kind / f"case{number:04d}.nii.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            nib.save(nib.Nifti1Image(array, np.eye(4)), path)


def costs(root: Path, count: int) -> dict[str, Cost]:
    """The costs of each command for so many scans, but of the training, which takes two steps."""
    data, project, run, out = (root / name for name in ("data", "project", "run", "out"))
    write_scans(data, count)
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    measured = {
        "init": measure("init", data, "-o", project, "--validation", "1"),
        "check": measure("check", project),
        "prepare": measure("prepare", project),
    }
    measure("train", project, "-o", run, "--method", "supervised", "--device", "cpu", *changes)
    return measured | {
        "predict": measure("predict", run, data / "images", out, "--device", "cpu"),
        "evaluate": measure("evaluate", out, data / "labels"),
    }


def measure(*words: object) -> Cost:
    """Run a command of the package to its end."""
    process = subprocess.Popen(
        [*TRACOCO, *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: `check` has warnings
        raise RuntimeError(f"tracoco {words[0]}: {said.decode()[-2000:]}")
    return Cost(used.ru_utime + used.ru_stime, _peak(used))


def _peak(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    counts = [int(word) for word in sys.argv[1:]]
    found = {}
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            found[count] = costs(Path(folder), count)
        sys.stderr.write(f"{count} scans: {found[count]}\n")
    sys.stdout.write(f"| command | {' | '.join(f'{count:,} scans' for count in counts)} |" + "\n")
    sys.stdout.write("|---|" + "---|" * len(counts) + "\n")
    for name in found[counts[0]]:
        cells = [f"{found[n][name].seconds:.1f} s, {found[n][name].peak_mb:.0f} MB" for n in counts]
        sys.stdout.write(f"| `{name}` | {' | '.join(cells)} |" + "\n")


if __name__ == "__main__":
    main()
