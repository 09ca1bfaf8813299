"""How much memory there is, the refusal of what does not fit into it, and reuse of large blocks."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracoco.errors import UserError

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux tells the limits of containers and of the jobs of a cluster."""


def total_bytes() -> int | None:
    """Memory of this machine, or what a container or job may have of it; None if nobody tells."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return min([machine, *(limit for limit, _ in _group_limits())])


def available_bytes() -> int | None:
    """What this process can still take without swapping or being killed; None if nobody tells."""
    bounds = [limit - used for limit, used in _group_limits()]
    bounds += [amount for amount in (_free(), _unreserved()) if amount is not None]
    return max(0, min(bounds)) if bounds else None


def check_memory(needed: int, what: str, fix: str) -> None:
    """Refuse what does not fit into the memory that is left, before any of it is taken.

    Args:
        needed: bytes.
        what: the subject of the message, e.g. a path and what is done with it.
        fix: what the user can do, the end of the message.
    """
    available = available_bytes()
    if available is not None and needed > available:
        raise UserError(
            f"{what} needs {as_gib(needed)} of memory, and {as_gib(available)} are available; {fix}"
        )


def as_gib(amount: int) -> str:
    """Bytes as a reader sees them: `3.2 GiB`, or 3.2e+12 GiB for what no machine has."""
    gib = amount / 2**30
    return f"{gib:,.1f} GiB" if gib < 1e6 else f"{gib:.1e} GiB"


def _free() -> int | None:
    """What the system can give without swapping: free, or a cache that it can drop."""
    try:
        lines = (PROC / "meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return total_bytes()
    found = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((int(kilobytes) * 1024 for kilobytes in found), None)


def _unreserved() -> int | None:
    """What is left of the address space where `ulimit -v` or a batch system limits it."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - Windows has none

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int((PROC / "self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return limit
    return limit - pages * resource.getpagesize()


def _group_limits() -> Iterator[tuple[int, int]]:
    """Limit and use of each control group that this process is in, those above it included."""
    try:
        lines = (PROC / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if not controllers:
            files = ("memory.max", "memory.current")
            yield from _limits_of(CGROUPS, name, *files)
        elif "memory" in controllers.split(","):
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            yield from _limits_of(CGROUPS / "memory", name, *files)


def _limits_of(root: Path, name: str, limit: str, used: str) -> Iterator[tuple[int, int]]:
    group = root / name.strip("/")
    for folder in (group, *group.parents):
        # Not limited: no such file, the word `max`, or a number that is larger than any memory.
        with suppress(OSError, ValueError):
            yield int((folder / limit).read_text()), _own(folder, used)
        if folder == root:
            return


def _own(folder: Path, used: str) -> int:
    """Memory that a group has in use, without the cache of files, which the system can drop."""
    amount = int((folder / used).read_text())
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return max(0, amount - int(value))
    return amount


# glibc asks the system for every block above 32 MB and gives it back as soon as it is freed, and
# the system fills it with zeros each time. Maps of large windows are such blocks, and this took up
# to half of a prediction's time, and a tenth of the scoring of a large scan. Other C libraries are
# left alone.
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
    _set_malloc(TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        _set_malloc(TRIM_THRESHOLD, USUAL_TRIM_THRESHOLD)
        give_back_freed_memory()


@contextmanager
def reused_blocks() -> Iterator[None]:
    """Take blocks of any size from what was freed before, where there is enough of it."""
    _set_malloc(MMAP_MAX, 0)
    try:
        yield
    finally:
        _set_malloc(MMAP_MAX, USUAL_MMAP_MAX)
        _set_malloc(MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)


def give_back_freed_memory() -> None:
    """Return to the system what this process has freed and still holds."""
    if GLIBC:
        GLIBC.malloc_trim(0)


def _set_malloc(setting: int, value: int) -> None:
    if GLIBC:
        GLIBC.mallopt(setting, value)
