"""Pseudo-labels of whole scans: written by one run, read by the training of the next.

A folder has one compressed file per case, on the grid of the store, and a manifest. A case counts
from the moment at which the manifest names it, so a kill at any point leaves nothing half done.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tracoco.data.batch import IGNORED
from tracoco.errors import UserError
from tracoco.files import array_digest, atomic_path, digest, read_json, write_json
from tracoco.project.cases import CaseId
from tracoco.project.store import StoredCase
from tracoco.settings import checked
from tracoco.text import listed

Label = NDArray[np.uint8]
"""Class indices on the grid of the store, `IGNORED` where they do not count."""


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """What the manifest says of one case."""

    digest: str
    """Of the label."""
    voxels: tuple[int, ...]
    """Of each class, those alone that count."""
    ignored: int
    """Voxels that do not count."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which weights gave the labels of which cases."""

    weights: str
    """Hash of the checkpoint that predicted them."""
    store: str
    """Hash of the prepared scans."""
    threshold: float
    """Probability below which a voxel does not count."""
    cases: dict[CaseId, LabelledCase] = field(default_factory=dict)

    @property
    def class_fractions(self) -> tuple[float, ...]:
        """Of the voxels that count, background first."""
        total = np.sum([case.voxels for case in self.cases.values()], axis=0)
        return tuple(float(part) for part in total / max(1, total.sum()))

    @property
    def counted(self) -> float:
        """Fraction of the voxels that count."""
        voxels = sum(sum(case.voxels) for case in self.cases.values())
        return voxels / max(1, voxels + sum(case.ignored for case in self.cases.values()))

    def hash(self) -> str:
        """Changes with every label; not with the file of the weights, which may be written anew."""
        known = {id_: case.digest for id_, case in self.cases.items()}
        return digest([self.store, known])


@dataclass(frozen=True, slots=True)
class PseudoLabels:
    """A folder of pseudo-labels."""

    root: Path

    @property
    def manifest_file(self) -> Path:
        """Which cases there are."""
        return self.root / "manifest.json"

    def file(self, id_: str) -> Path:
        """Where the label of a case is."""
        return self.root / f"{id_}.npz"

    def manifest(self) -> Manifest:
        """What there is so far."""
        if not self.manifest_file.exists():
            raise UserError(f"{self.root} holds no pseudo-labels; run `tracoco self-train` again")
        return checked(Manifest, read_json(self.manifest_file), str(self.manifest_file))

    def begin(self, weights: str, store: str, threshold: float) -> Manifest:
        """What is there already of these labels; a folder with others is refused."""
        if not self.manifest_file.exists():
            return Manifest(weights, store, threshold)
        found = self.manifest()
        if found != Manifest(weights, store, threshold, found.cases):
            raise UserError(
                f"{self.root} has pseudo-labels of other weights, scans or another threshold; "
                "delete that folder, or choose another --out"
            )
        return found

    def add(self, manifest: Manifest, id_: str, label: Label, classes: int) -> Manifest:
        """Write the label of a case, then enter it in the manifest, which is returned."""
        with atomic_path(self.file(id_)) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, label=label)
        counts = np.bincount(label.ravel(), minlength=IGNORED + 1)
        voxels = tuple(int(count) for count in counts[:classes])
        entry = LabelledCase(array_digest(label), voxels, int(counts[IGNORED]))
        manifest = replace(manifest, cases={**manifest.cases, id_: entry})
        write_json(self.manifest_file, asdict(manifest))
        return manifest

    def check(self, ids: Sequence[str]) -> None:
        """Refuse a folder that lacks the label of a case."""
        known = self.manifest().cases
        missing = [id_ for id_ in ids if id_ not in known or not self.file(id_).is_file()]
        if missing:
            raise UserError(
                f"{self.root} lacks pseudo-labels of {listed(missing)}; "
                "run `tracoco self-train` with --resume"
            )

    def label(self, case: StoredCase) -> Label:
        """The label of a case, whole."""
        file = self.file(case.id)
        try:
            facts = file.stat()
            label = _read(file, facts.st_ino, facts.st_mtime_ns)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise UserError(
                f"{file} cannot be read as a pseudo-label; delete {self.root} and the rounds after "
                "it, then run `tracoco self-train` with --resume"
            ) from error
        if label.shape != case.shape:
            raise UserError(f"{file} is of another scan than case '{case.id}' of the store")
        return label


@lru_cache(maxsize=64)
def _read(file: Path, inode: int, changed_ns: int) -> Label:  # noqa: ARG001 - of the key
    """Unpack a file, or find it unpacked: a crop needs a part of it, at nearly every step."""
    with np.load(file, allow_pickle=False) as content:
        label: Label = content["label"]
    return label
