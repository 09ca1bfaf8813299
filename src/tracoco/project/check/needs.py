"""What it takes to prepare a data set: room on the disk, memory and time."""

import shutil
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.check.case_check import CaseCheck, stored_shape
from tracoco.project.check.row import Row, fault
from tracoco.project.plan import Plan
from tracoco.project.prepared import prepare_case
from tracoco.scans.scan import ScanHeader

IMAGE_BYTES, LABEL_BYTES = 4, 1
"""Of a voxel in the store, for each channel and for the label."""
RESAMPLED_BYTES = 8
"""Of a voxel while it is resampled: torch's memory, which the measurement does not see."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Sums over all cases that could be read; None where there is no plan to go by."""

    disk_bytes: int
    """The store, uncompressed; at the scans' own spacing while there is no plan."""
    free_bytes: int
    memory_bytes: int | None = None
    """At the peak of preparing the largest case, for each process."""
    prepare_seconds: float | None = None
    """By one process."""
    measured_on: str = ""
    """The case that was prepared, and thrown away, to know memory and time."""


def needs_of(checks: Sequence[CaseCheck], plan: Plan | None, root: Path) -> Needs:
    """Sizes by the part of a scan that is stored; memory and time by preparing a median case."""
    seen = [(one, one.header) for one in checks if one.header]
    disk = sum(_stored_bytes(one, header, plan) for one, header in seen)
    needs = Needs(disk, shutil.disk_usage(root).free)
    sound = [(one, header) for one, header in seen if not _broken(one)]
    if plan is None or not sound:
        return needs
    sound.sort(key=lambda item: _voxels(item[1]))
    one, header = sound[len(sound) // 2]
    hidden = None if one.part == "unlabelled" else one.case.label
    tracemalloc.start()
    start = time.perf_counter()
    try:
        prepare_case(replace(one.case, label=hidden), plan)
    except UserError:  # what is wrong with it has a row of its own
        return needs
    finally:
        seconds = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    largest = max(_voxels(header) for _, header in seen)
    share = sum(_voxels(header) for _, header in seen) / _voxels(header)
    resampled = max(prod(stored_shape(*each, plan)) for each in seen) * RESAMPLED_BYTES
    memory = int(peak * largest / _voxels(header)) + resampled * header.channels
    return replace(
        needs, memory_bytes=memory, prepare_seconds=seconds * share, measured_on=one.case.id
    )


def disk_rows(needs: Needs, root: Path) -> list[Row]:
    """An error if the store does not fit on its disk."""
    if needs.disk_bytes <= needs.free_bytes:
        return []
    problem = f"the store takes {gigabytes(needs.disk_bytes)}; {gigabytes(needs.free_bytes)} free"
    return [fault("", root, problem, "free some space, or use a coarser spacing_mm in plan.yaml")]


def gigabytes(count: float) -> str:
    """Bytes for a person."""
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"


def _broken(one: CaseCheck) -> bool:
    return any(row.severity == "error" for row in one.rows)


def _voxels(header: ScanHeader) -> int:
    return prod(header.shape) * header.channels


def _stored_bytes(one: CaseCheck, header: ScanHeader, plan: Plan | None) -> int:
    labelled = one.part != "unlabelled"
    each = IMAGE_BYTES * header.channels + (LABEL_BYTES if labelled else 0)
    return prod(stored_shape(one, header, plan)) * each
