"""The project folder: where its files are, and how they are read."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case, read_cases
from tracoco.project.plan import Plan, read_plan
from tracoco.project.splits import Splits, check_splits, read_splits
from tracoco.project.transaction import finish_replacing, read_together
from tracoco.settings import Settings, checked


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
