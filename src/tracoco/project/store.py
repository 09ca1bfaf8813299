"""Prepared cases as memory-mapped arrays: a crop reads only the box that it needs.

Each file of a case has a digest. A process reads an array whole when it first opens it, and
compares; afterwards it is a look-up. `tracoco prepare` compares all of them.
"""

import io
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tracoco.errors import UserError
from tracoco.files import atomic_path, content_hash, digest, read_json, write_json
from tracoco.geometry import Box
from tracoco.project.cases import CaseId, CaseOrigin
from tracoco.project.plan import Plan
from tracoco.project.preprocess import is_drawn, is_structure
from tracoco.project.splits import Splits
from tracoco.scans.scan import Shape, Spacing
from tracoco.settings import checked

PARTS = ("image", "label", "foreground", "drawn")
DIGEST = "digest"
"""Key of the facts' own digest."""
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


def has_arrays(root: Path, id_: str, *, labelled: bool, undrawn: int = 0) -> bool:
    """Whether all arrays of a case are there; `undrawn` as its facts say."""
    parts = PARTS[: (4 if undrawn else 3) if labelled else 1]
    return all(array_file(root, id_, part).is_file() for part in parts)


def write_case(root: Path, origin: CaseOrigin, prepared: PreparedCase, plan: Plan) -> None:
    """Replace a case; until the last file is there, the store has no such case."""
    id_, label, undrawn = origin.id, prepared.label, 0
    arrays: dict[str, NDArray[Any]] = {"image": prepared.image}
    if label is not None:
        arrays |= {"label": label, "foreground": foreground_voxels(label, id_)}
        drawn = is_drawn(label)
        if undrawn := int(label.size - np.count_nonzero(drawn)):
            arrays["drawn"] = _some(np.flatnonzero(drawn), label.shape, MOST_FOREGROUND, id_)
    digests = {}
    with ExitStack() as stack:
        for part, array in arrays.items():
            path = stack.enter_context(atomic_path(array_file(root, id_, part)))
            digests[part] = _write_array(path, array)
        # All is on the disk under other names: until the new facts are there the case is not.
        facts_file(root, id_).unlink(missing_ok=True)
    for part in set(PARTS) - arrays.keys():
        array_file(root, id_, part).unlink(missing_ok=True)
    voxels = None if label is None else class_voxels(label, plan.classes)
    facts = {
        "id": id_,
        "plan": origin.plan,
        "sources": origin.sources.to_json(),
        "stamps": origin.stamps.to_json(),
        "shape": prepared.shape,
        "spacing_mm": prepared.spacing_mm,
        "scan_shape": prepared.scan_shape,
        "box": asdict(prepared.box),
        "class_voxels": voxels,
        **({"undrawn_voxels": undrawn} if undrawn else {}),
        "steps": prepared.steps,
        "arrays": digests,
    }
    write_facts(facts_file(root, id_), facts)


def foreground_voxels(label: NDArray[np.uint8], id_: str) -> NDArray[np.int32]:
    """Some foreground voxels [N, 3], always the same for a case.

    No class has more than an equal part, so that a small structure is not lost among large ones.
    """
    generator = np.random.default_rng(int(digest(id_)[:16], 16))
    present = np.unique(label[is_structure(label)])
    chosen = []
    for index in present:
        places = np.flatnonzero(label == index)
        count = min(MOST_FOREGROUND // len(present), len(places))
        chosen.append(np.sort(generator.choice(places, count, replace=False)))
    flat = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    return np.stack(np.unravel_index(flat, label.shape), axis=1).astype(np.int32)


def _some(flat: NDArray[Any], shape: Shape, most: int, id_: str) -> NDArray[np.int32]:
    """At most so many of these voxels as [N, 3], always the same for a case."""
    generator = np.random.default_rng(int(digest(id_)[:16], 16))
    if len(flat) > most:
        flat = np.sort(generator.choice(flat, most, replace=False))
    return np.stack(np.unravel_index(flat, shape), axis=1).astype(np.int32)


def class_voxels(label: NDArray[np.uint8], classes: int) -> list[int]:
    """Drawn voxels of each class, slab by slab: numpy counts in integers eight times as large."""
    counts = np.zeros(classes, dtype=np.int64)
    for slab in label:
        counts += np.bincount(slab.ravel(), minlength=256)[:classes]
    return [int(count) for count in counts]


def _write_array(path: Path, array: NDArray[Any]) -> str:
    """Like `np.save`, whose error on a full disk does not say that the disk is full.

    Returns:
        SHA-256 of the file.
    """
    array = np.ascontiguousarray(array)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    known = sha256(header.getbuffer())
    known.update(array.data)
    with path.open("wb") as file:
        file.write(header.getbuffer())
        file.write(array.data)
        file.flush()
        os.fsync(file.fileno())
    return known.hexdigest()


def write_facts(file: Path, facts: dict[str, Any]) -> None:
    """Write the facts of a case with a digest of their own, so that each of them can be trusted."""
    known = {key: value for key, value in facts.items() if key != DIGEST}
    known = json.loads(json.dumps(known))  # as it will be read
    write_json(file, known | {DIGEST: digest(known)})


def read_facts(file: Path) -> dict[str, Any]:
    """The facts of a case; facts of earlier versions have no digest."""
    facts = read_json(file)
    if not isinstance(facts, dict):
        raise _damaged(file)
    known = {key: value for key, value in facts.items() if key != DIGEST}
    if DIGEST in facts and facts[DIGEST] != digest(known):
        raise _damaged(file)
    return facts


def array_digests(root: Path, facts: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of the arrays of a case, as they are on the disk now."""
    files = {part: array_file(root, facts["id"], part) for part in PARTS}
    return {part: content_hash(file) for part, file in files.items() if file.exists()}


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
    undrawn: int = 0
    """Voxels of which the label does not say what they are."""
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)
    """SHA-256 of its files by part; cases that an earlier version prepared have none."""

    def image(self) -> NDArray[np.float32]:
        """Float32 [C, ...stored axes], in [0, 1]."""
        return self._open("image")

    def label(self) -> NDArray[np.uint8]:
        """Class indices, uint8 [...stored axes]; `preprocess.MARKS` where nothing is drawn."""
        return self._open("label")

    def foreground(self) -> NDArray[np.int32]:
        """Some foreground voxels, int32 [N, 3]; each class has an equal part."""
        return self._open("foreground")

    def drawn(self) -> NDArray[np.int32]:
        """Some drawn voxels, int32 [N, 3], of a case that has others too."""
        return self._open("drawn")

    def _open(self, part: str) -> NDArray[Any]:
        if part != "image" and self.class_voxels is None:
            raise ValueError(f"case '{self.id}' is unlabelled: it has no {part}")
        file = array_file(self.root, self.id, part)
        try:
            facts = file.stat()
            array = _mapped(file, facts.st_ino, facts.st_mtime_ns, self.digests.get(part))
        except UserError:
            raise
        except Exception as error:  # what numpy raises for a damaged header has no end
            raise _missing(self.root, self.id) from error
        if part in ("image", "label") and array.shape[-3:] != self.shape:
            raise _missing(self.root, self.id)
        return array


@lru_cache(maxsize=256)
def _mapped(file: Path, inode: int, changed_ns: int, expected: str | None) -> NDArray[Any]:
    """Map a file, or find it mapped: its pages are then at hand without a fault for each.

    A file that was replaced is another one, whatever it is called.
    """
    if expected:
        _check_content(file, inode, changed_ns, expected)
    array: NDArray[Any] = np.load(file, mmap_mode="r")
    return array


class _Facts(BaseModel):
    """What is asked of the facts of a case; there are others."""

    model_config = ConfigDict(extra="allow")

    id: CaseId
    plan: str
    sources: Any
    shape: Shape
    spacing_mm: Spacing
    class_voxels: tuple[int, ...] | None


@cache
def _check_content(file: Path, inode: int, changed_ns: int, expected: str) -> None:  # noqa: ARG001 - of the key
    """Read a file once in this process, and compare its bytes with what was written."""
    if content_hash(file) != expected:
        raise _damaged(file)


@lru_cache(maxsize=4096)
def _parsed(file: Path, inode: int, changed_ns: int) -> dict[str, Any]:  # noqa: ARG001 - the same
    """The facts of a case; a crop asks for them, and they are read once."""
    return checked(_Facts, read_facts(file), str(file)).model_dump()


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
        shape, spacing_mm = tuple(facts["shape"]), tuple(facts["spacing_mm"])
        undrawn, digests = facts.get("undrawn_voxels", 0), facts.get("arrays", {})
        return StoredCase(id_, self.root, shape, counts, spacing_mm, undrawn, digests)

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


def _damaged(file: Path) -> UserError:
    return UserError(
        f"{file} is damaged: it is not what was written; check the disk, then run "
        f"`tracoco prepare {file.parent.parent}`, which prepares this case again"
    )


def _missing(root: Path, id_: str) -> UserError:
    return UserError(f"case '{id_}' is not prepared in {root}; run `tracoco prepare {root.parent}`")
