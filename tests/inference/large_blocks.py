"""Takes, writes and frees large blocks in a fresh process, and prints what that cost, as JSON."""

import json
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

from tracoco.memory import freed_memory_kept, reused_blocks

VALUES = 12_000_000
"""Of 48 MB: glibc asks the system for each block of so many."""


def page_faults(count: int) -> int:
    """Of so many blocks, one after the other."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        torch.empty(VALUES).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def held_mb() -> float:
    """What this process holds now."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    held = next(line for line in lines if line.startswith("RssAnon"))
    return int(held.split()[1]) * 1024 / 1e6


page_faults(1)
figures = {"usual_faults": page_faults(4), "before_mb": held_mb()}
with suppress(ArithmeticError), freed_memory_kept():
    with reused_blocks():
        page_faults(20)  # after some, glibc has found room that fits all further ones
    with reused_blocks():
        figures |= {"kept_faults": page_faults(4), "kept_mb": held_mb()}
        raise ArithmeticError
figures["after_mb"] = held_mb()
sys.stdout.write(json.dumps(figures))
