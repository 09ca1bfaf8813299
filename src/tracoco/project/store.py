"""Prepared cases as memory-mapped arrays: a crop reads only the box that it needs."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import read_json
from tracoco.project.case_files import array_file, facts_file
from tracoco.project.digest import digest
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits
from tracoco.scans.scan import Shape, Spacing


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
        """Some foreground voxels, int32 [N, 3]; each class has an equal share."""
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
        if not file.is_file():
            raise _missing(self.root, id_)
        facts: dict[str, Any] = read_json(file)
        return facts


def _missing(root: Path, id_: str) -> UserError:
    return UserError(f"case '{id_}' is not prepared in {root}; run `tracoco prepare {root.parent}`")
