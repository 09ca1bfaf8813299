"""The most memory that a training held, as far as the system tells."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from tracoco.files import read_json, write_json
from tracoco.inference.kept_memory import give_back_freed_memory

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"
"""What Linux takes as the order to count the peak of resident memory anew."""


@contextmanager
def peak_noted(folder: Path, device: torch.device) -> Iterator[None]:
    """Note in a run's folder how much was held at most; a run in parts has the most of them.

    On a GPU it is what torch had allocated there, elsewhere the memory of this process, torch
    itself included. On systems that do not tell nothing is noted.
    """
    counting = start_count(device)
    try:
        yield
    finally:
        if counting and folder.is_dir():
            peak = max(noted_peak(folder) or 0.0, counted_mb(device))
            write_json(folder / "memory.json", {"peak_mb": peak})


def noted_peak(folder: Path) -> float | None:
    """The peak of a run in MB of a million bytes, if it was noted."""
    path = folder / "memory.json"
    return float(read_json(path)["peak_mb"]) if path.exists() else None


def start_count(device: torch.device) -> bool:
    """Forget earlier peaks, and give back what earlier runs of this process have freed.

    False where the system does not let peaks be counted anew: an old one says nothing of a run.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    give_back_freed_memory()
    try:
        RESET.write_text(FORGET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def counted_mb(device: torch.device) -> float:
    """The peak since the count started."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    lines = STATUS.read_text(encoding="ascii").splitlines()
    held = next(line for line in lines if line.startswith("VmHWM"))
    return int(held.split()[1]) * 1024 / 1e6
