"""Memory that one large map or volume after the other is written to, without the system's help.

glibc asks the system for every block above 32 MB and gives it back as soon as it is freed, and the
system fills it with zeros each time. Maps of large windows are such blocks, and this took up to
half of a prediction's time, and a tenth of the scoring of a large scan. Other C libraries are left
alone.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None
GLIBC = _LIBRARY if hasattr(_LIBRARY, "mallopt") else None
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Numbers of glibc's settings in `mallopt`."""
NEVER = -1
LARGEST_MMAP_THRESHOLD = 32 * 2**20
USUAL_MMAP_MAX, USUAL_TRIM_THRESHOLD = 65536, 2 * LARGEST_MMAP_THRESHOLD
"""What glibc comes to by itself once a program has freed a large block."""


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep what `reused_blocks` have freed for later ones, and give it back at the end."""
    _set(TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        _set(TRIM_THRESHOLD, USUAL_TRIM_THRESHOLD)
        give_back_freed_memory()


@contextmanager
def reused_blocks() -> Iterator[None]:
    """Take blocks of any size from what was freed before, where there is enough of it."""
    _set(MMAP_MAX, 0)
    try:
        yield
    finally:
        _set(MMAP_MAX, USUAL_MMAP_MAX)
        _set(MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)


def give_back_freed_memory() -> None:
    """Return to the system what this process has freed and still holds."""
    if GLIBC:
        GLIBC.malloc_trim(0)


def _set(setting: int, value: int) -> None:
    if GLIBC:
        GLIBC.mallopt(setting, value)
