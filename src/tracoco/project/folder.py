"""The project folder: where its files are, how they are read, and replaced several at a time.

Whatever happens, all are new or all are old. New files are written into a folder of their own. Once
they are on the disk it gets the name by which everybody knows it, and with this one step the change
is made: whoever opens the project next moves the files to their places, should the one who wrote
them have died before. One process at a time may change a project (`tracoco.lock`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import copymode, rmtree
from tempfile import mkdtemp
from typing import Any, TypeVar

from pydantic import Field

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case, read_cases
from tracoco.project.plan import Plan, read_plan
from tracoco.project.splits import Splits, check_splits, read_splits
from tracoco.settings import Settings, checked

UNFINISHED, DECIDED = ".tracoco-new", ".tracoco-decided"
"""How the names of folders begin that are written into, and the name that such a one gets."""
Read = TypeVar("Read")


@contextmanager
def replaced_together(root: Path) -> Iterator[Path]:
    """A folder to write the new files into; they take the places of the old ones at the end."""
    finish_replacing(root)
    root.mkdir(parents=True, exist_ok=True)
    new = Path(mkdtemp(prefix=UNFINISHED, dir=root))
    copymode(root, new)  # others may have to move the files, and would not be let in
    try:
        yield new
        _flush(new)
        new.replace(root / DECIDED)
    except BaseException:
        rmtree(new, ignore_errors=True)
        raise
    _flush(root)
    finish_replacing(root)


def finish_replacing(root: Path) -> None:
    """Move files that were decided on to their places; several processes may do so at a time."""
    decided = root / DECIDED
    if not decided.is_dir():
        return
    try:
        with suppress(FileNotFoundError):  # another process came first
            for file in list(decided.iterdir()):
                with suppress(FileNotFoundError):
                    file.replace(root / file.name)
            decided.rmdir()
    except OSError as error:
        raise UserError(
            f"the new files in {decided} cannot be put in place ({error.strerror}); "
            f"let its owner run `tracoco plan {root}`, which does so"
        ) from error


def remove_abandoned(root: Path) -> None:
    """Remove files that were never decided on: their writer was killed.

    Whoever calls this has the lock of the project, so that nobody is filling such a folder now.
    """
    for folder in root.glob(f"{UNFINISHED}*"):
        rmtree(folder, ignore_errors=True)


def take_back(root: Path, files: Iterable[Path]) -> None:
    """Remove what was decided on, and the files that are in place: none was there before."""
    rmtree(root / DECIDED, ignore_errors=True)
    for file in files:
        file.unlink(missing_ok=True)


def read_together(root: Path, marker: Path, read: Callable[[], Read]) -> Read:
    """What `read` makes of several files, none of which was replaced meanwhile.

    Every replacement has the marker among its files.
    """
    while True:
        finish_replacing(root)
        before = marker.stat()
        value = read()
        after = marker.stat()
        same = (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        if same and not (root / DECIDED).exists():
            return value


def _flush(folder: Path) -> None:
    """Have the names in a folder on the disk, as its files are; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Origin:
    """What cannot be seen from the cases any more."""

    layout: str = ""
    """How the files were paired; empty in projects that do not know."""
    group_pattern: str | None = None
    notes: tuple[str, ...] = ()
    watermark: str = ""
    """Stands by every result of the project, if it is not empty."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Values of the plan that are known of the data set, in place of planned ones."""


def write_origin(path: Path, origin: Origin) -> None:
    """Write origin.json."""
    write_json(path, asdict(origin))


def read_origin(path: Path) -> Origin:
    """Read origin.json; older projects have none."""
    if not path.is_file():
        return Origin()
    return Origin(**checked(_File, read_json(path), str(path)).model_dump())


class _File(Settings):
    layout: str = ""
    group_pattern: str | None = None
    notes: tuple[str, ...] = ()
    watermark: str = ""
    plan: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that holds all that is known about a data set, and its runs."""

    root: Path

    @property
    def cases_file(self) -> Path:
        """Images and labels, by case."""
        return self.root / "cases.json"

    @property
    def splits_file(self) -> Path:
        """Which cases are labelled, unlabelled, for validation, for testing."""
        return self.root / "splits.json"

    @property
    def plan_file(self) -> Path:
        """How scans are brought to one form."""
        return self.root / "plan.yaml"

    @property
    def fingerprint_file(self) -> Path:
        """What the data looked like when the project was made."""
        return self.root / "fingerprint.json"

    @property
    def origin_file(self) -> Path:
        """Where the data came from, and what was said of it then."""
        return self.root / "origin.json"

    @property
    def store_root(self) -> Path:
        """Prepared cases."""
        return self.root / "store"

    @property
    def runs_root(self) -> Path:
        """One folder a training run."""
        return self.root / "runs"

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is known about the data, without what was made from it."""
        lists = (self.cases_file, self.splits_file)
        return (*lists, self.plan_file, self.fingerprint_file, self.origin_file)

    @property
    def exists(self) -> bool:
        """Whether the folder is a project; an update that was cut off is finished first."""
        finish_replacing(self.root)
        return self.cases_file.is_file()

    def test_cases(self) -> list[Case]:
        """The cases that are kept for the end; an error if there are none."""
        return self.cases_of("test")

    def cases_of(self, part: str) -> list[Case]:
        """The cases of a part of the split, `fold K` or `all`; an error if there are none."""
        splits = self.load_splits()
        folds = {f"fold {number}": fold for number, fold in enumerate(splits.folds, start=1)}
        ids = set((splits.parts | folds | {"all": splits.ids}).get(part, ()))
        if not ids:
            way = "; `tracoco init --test N` keeps some" if part == "test" else ""
            raise UserError(f"{self.root} has no {part} cases{way}")
        return [case for case in self.load_cases() if case.id in ids]

    def load_cases(self) -> list[Case]:
        """All cases, sorted by id."""
        self._check()
        return read_cases(self.cases_file)

    def load_splits(self) -> Splits:
        """The split, checked against the cases."""
        self._check()
        cases, splits = read_together(
            self.root,
            self.cases_file,
            lambda: (read_cases(self.cases_file), read_splits(self.splits_file)),
        )
        check_splits(splits, cases, str(self.splits_file))
        return splits

    def load_plan(self) -> Plan:
        """The plan, with all that a person changed in it."""
        self._check()
        return read_plan(self.plan_file)

    def load_origin(self) -> Origin:
        """How the data was understood when the project was made."""
        self._check()
        return read_origin(self.origin_file)

    def _check(self) -> None:
        if not self.exists:
            raise UserError(
                f"{self.root} is not a project folder: it has no cases.json. "
                f"Make one with `tracoco init DATA --out {self.root}`"
            )


def structure_names(run: Path, plan: Plan) -> dict[int, str]:
    """Name of each label value: as the run's project calls it now, if the run lies in one.

    A structure may have been named in the project's plan after the run was trained.
    """
    names = dict(zip(plan.label_values, plan.class_names, strict=True))
    for folder in run.resolve().parents[1:3]:
        if Project(folder).plan_file.is_file() and Project(folder).cases_file.is_file():
            now = Project(folder).load_plan()
            known = dict(zip(now.label_values, now.class_names, strict=True))
            return {value: known.get(value, name) for value, name in names.items()}
    return names
