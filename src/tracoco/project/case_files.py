"""The files of one case in the store: written whole or not at all."""

import os
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.files import atomic_path, write_json
from tracoco.project.plan import Plan
from tracoco.project.prepared import PreparedCase, foreground_voxels

PARTS = ("image", "label", "foreground")
ABANDONED_SECONDS = 3600
"""A half-written file that nobody wrote to for so long belongs to a process that was killed."""


def facts_file(root: Path, id_: str) -> Path:
    """Where the facts about a case are; written last, so that the rest is there too."""
    return root / f"{id_}.json"


def array_file(root: Path, id_: str, part: str) -> Path:
    """Where an array of a prepared case is."""
    return root / f"{id_}.{part}.npy"


def has_arrays(root: Path, id_: str, *, labelled: bool) -> bool:
    """Whether all arrays of a case are there."""
    parts = PARTS if labelled else PARTS[:1]
    return all(array_file(root, id_, part).is_file() for part in parts)


def write_case(root: Path, facts: dict[str, Any], prepared: PreparedCase, plan: Plan) -> None:
    """Replace a case; until the last file is there, the store has no such case."""
    id_, label = facts["id"], prepared.label
    arrays: dict[str, NDArray[Any]] = {"image": prepared.image}
    if label is not None:
        arrays |= {"label": label, "foreground": foreground_voxels(label, id_)}
    with ExitStack() as stack:
        for part, array in arrays.items():
            _write_array(stack.enter_context(atomic_path(array_file(root, id_, part))), array)
        # All is on the disk under other names: until the new facts are there the case is not.
        facts_file(root, id_).unlink(missing_ok=True)
    for part in set(PARTS) - arrays.keys():
        array_file(root, id_, part).unlink(missing_ok=True)
    voxels = None if label is None else class_voxels(label, plan.classes)
    more = {
        "shape": prepared.shape,
        "spacing_mm": prepared.spacing_mm,
        "scan_shape": prepared.scan_shape,
        "box": asdict(prepared.box),
        "class_voxels": voxels,
        "steps": prepared.steps,
    }
    write_json(facts_file(root, id_), facts | more)


def class_voxels(label: NDArray[np.uint8], classes: int) -> list[int]:
    """Voxels of each class; slab by slab, since numpy counts in integers eight times as large."""
    counts = np.zeros(classes, dtype=np.int64)
    for slab in label:
        counts += np.bincount(slab.ravel(), minlength=classes)
    return [int(count) for count in counts]


def remove_abandoned(root: Path) -> None:
    """Delete what killed processes left half-written; their names start with a dot."""
    oldest = time.time() - ABANDONED_SECONDS
    for file in root.glob(".*.*"):
        if file.suffix in {".npy", ".json"} and file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)


def _write_array(path: Path, array: NDArray[Any]) -> None:
    """Like `np.save`, whose error on a full disk does not say that the disk is full."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)
        file.flush()
        os.fsync(file.fileno())
