"""Prepared cases as memory-mapped arrays: a crop reads only the box that it needs."""

import os
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path, digest, read_json, write_json
from tracoco.geometry import Box
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits
from tracoco.scans.scan import Shape, Spacing

PARTS = ("image", "label", "foreground")
ABANDONED_SECONDS = 3600
"""A half-written file that nobody wrote to for so long belongs to a process that was killed."""


MOST_FOREGROUND = 1000
"""Foreground voxels kept a case: enough places for crops, and read in no time."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCase:
    """What the store keeps of a case; without a label the case is unlabelled."""

    image: NDArray[np.float32]
    label: NDArray[np.uint8] | None
    spacing_mm: Spacing
    scan_shape: Shape
    """Of the whole scan, by canonical axes."""
    box: Box
    """The part of the scan that is stored, by canonical axes."""
    steps: tuple[str, ...]
    """What was done to the scan, for a person."""

    @property
    def shape(self) -> Shape:
        """Of the spatial axes, in stored order."""
        a, b, c = self.image.shape[1:]
        return (a, b, c)


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


def foreground_voxels(label: NDArray[np.uint8], id_: str) -> NDArray[np.int32]:
    """Some foreground voxels [N, 3], always the same for a case.

    No class has more than an equal part, so that a small structure is not lost among large ones.
    """
    generator = np.random.default_rng(int(digest(id_)[:16], 16))
    present = np.unique(label[label > 0])
    chosen = []
    for index in present:
        places = np.flatnonzero(label == index)
        count = min(MOST_FOREGROUND // len(present), len(places))
        chosen.append(np.sort(generator.choice(places, count, replace=False)))
    flat = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    return np.stack(np.unravel_index(flat, label.shape), axis=1).astype(np.int32)


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


@dataclass(frozen=True, slots=True)
class StoredCase:
    """A prepared case. Its arrays are mapped from their files: the page cache is the cache."""

    id: str
    root: Path
    shape: Shape
    """Of the spatial axes, in stored order."""
    class_voxels: tuple[int, ...] | None
    """Voxels of each class; None where the case has no label."""
    spacing_mm: Spacing
    """Side lengths of a stored voxel, which may differ a little from the plan's."""

    def image(self) -> NDArray[np.float32]:
        """Float32 [C, ...stored axes], in [0, 1]."""
        return self._open("image")

    def label(self) -> NDArray[np.uint8]:
        """Class indices, uint8 [...stored axes]."""
        return self._open("label")

    def foreground(self) -> NDArray[np.int32]:
        """Some foreground voxels, int32 [N, 3]; each class has an equal part."""
        return self._open("foreground")

    def _open(self, part: str) -> NDArray[Any]:
        if part != "image" and self.class_voxels is None:
            raise ValueError(f"case '{self.id}' is unlabelled: it has no {part}")
        file = array_file(self.root, self.id, part)
        try:
            facts = file.stat()
            return _mapped(file, facts.st_ino, facts.st_mtime_ns)
        except (OSError, ValueError, EOFError) as error:
            raise _missing(self.root, self.id) from error


@lru_cache(maxsize=256)
def _mapped(file: Path, inode: int, changed_ns: int) -> NDArray[Any]:  # noqa: ARG001 - of the key
    """Map a file, or find it mapped: its pages are then at hand without a fault for each.

    A file that was replaced is another one, whatever it is called.
    """
    array: NDArray[Any] = np.load(file, mmap_mode="r")
    return array


@lru_cache(maxsize=4096)
def _parsed(file: Path, inode: int, changed_ns: int) -> dict[str, Any]:  # noqa: ARG001 - the same
    """The facts of a case; a crop asks for them, and they are read once."""
    facts: dict[str, Any] = read_json(file)
    return facts


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of prepared cases."""

    root: Path

    @property
    def ids(self) -> tuple[str, ...]:
        """All prepared cases, sorted."""
        return tuple(sorted(file.name.removesuffix(".json") for file in self._facts_files()))

    def case(self, id_: str) -> StoredCase:
        """One case, with its arrays still on disk."""
        facts = self._facts(id_)
        voxels = facts["class_voxels"]
        counts = None if voxels is None else tuple(voxels)
        return StoredCase(id_, self.root, tuple(facts["shape"]), counts, tuple(facts["spacing_mm"]))

    def check(self, splits: Splits, plan: Plan) -> None:
        """Refuse cases that are missing, or that were prepared by another plan or split."""
        for id_ in splits.ids:
            facts = self._facts(id_)
            if id_ in splits.annotated and not facts["class_voxels"]:
                raise _missing(self.root, id_)
            if facts["plan"] != plan.hash():
                raise UserError(
                    f"{self.root} was prepared by another plan than plan.yaml; "
                    f"run `tracoco prepare {self.root.parent}` again"
                )

    def hash(self) -> str:
        """Changes with every source file and every setting that the prepared cases come from."""
        facts = [self._facts(id_) for id_ in self.ids]
        return digest([[fact[key] for key in ("id", "sources", "plan")] for fact in facts])

    def _facts_files(self) -> list[Path]:
        return [file for file in self.root.glob("*.json") if not file.name.startswith(".")]

    def _facts(self, id_: str) -> dict[str, Any]:
        file = facts_file(self.root, id_)
        try:
            found = file.stat()
        except OSError as error:
            raise _missing(self.root, id_) from error
        return _parsed(file, found.st_ino, found.st_mtime_ns)


def _missing(root: Path, id_: str) -> UserError:
    return UserError(f"case '{id_}' is not prepared in {root}; run `tracoco prepare {root.parent}`")
