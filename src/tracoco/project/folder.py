"""The project folder: where its files are, and how it comes to be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracoco.errors import UserError
from tracoco.project.cases import Case, find_cases, read_cases, write_cases
from tracoco.project.fingerprint import take_fingerprint, write_fingerprint
from tracoco.project.plan import Plan, make_plan, read_plan, write_plan
from tracoco.project.splits import Splits, check_splits, make_splits, read_splits, write_splits


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
    def store_root(self) -> Path:
        """Prepared cases."""
        return self.root / "store"

    @property
    def runs_root(self) -> Path:
        """One folder a training run."""
        return self.root / "runs"

    @property
    def exists(self) -> bool:
        """Whether the folder is a project."""
        return self.cases_file.is_file()

    def test_cases(self) -> list[Case]:
        """The cases that are kept for the end; an error if there are none."""
        kept = set(self.load_splits().test)
        if not kept:
            raise UserError(f"{self.root} has no test cases; `tracoco init --test N` keeps some")
        return [case for case in self.load_cases() if case.id in kept]

    def load_cases(self) -> list[Case]:
        """All cases, sorted by id."""
        self._check()
        return read_cases(self.cases_file)

    def load_splits(self) -> Splits:
        """The split, checked against the cases."""
        cases = self.load_cases()
        splits = read_splits(self.splits_file)
        check_splits(splits, cases, str(self.splits_file))
        return splits

    def load_plan(self) -> Plan:
        """The plan, with all that a person changed in it."""
        self._check()
        return read_plan(self.plan_file)

    def _check(self) -> None:
        if not self.exists:
            raise UserError(
                f"{self.root} is not a project folder: it has no cases.json. "
                f"Make one with `tracoco init DATA --out {self.root}`"
            )


def init_project(  # noqa: PLR0913  # each is a choice of the user's, with a default
    data: Path,
    out: Path,
    *,
    labels: Path | None = None,
    validation: int = 0,
    test: int = 0,
    dimensions: Literal[2, 3] = 3,
    seed: int = 0,
    split: Callable[[Sequence[Case]], Splits] | None = None,
) -> Project:
    """Look at the data, split and plan; write the folder only if all of it is in order.

    With `split` the cases are not drawn: it says which case goes where.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(f"{out} exists already and is left as it is; choose another folder")
    cases = find_cases(data, labels)
    if split is None:
        splits = make_splits(cases, validation=validation, test=test, seed=seed)
    else:
        splits = split(cases)
    fingerprint = take_fingerprint(cases, splits)
    plan = make_plan(fingerprint, dimensions)
    project, existed = Project(out), out.exists()
    try:
        write_splits(project.splits_file, splits)
        write_fingerprint(project.fingerprint_file, fingerprint)
        write_plan(project.plan_file, plan)
        write_cases(project.cases_file, cases)  # the last: with it the folder is a project
    except BaseException:
        _discard(project, keep_folder=existed)
        raise
    return project


def _discard(project: Project, *, keep_folder: bool) -> None:
    """Take back what was written of a project."""
    for file in (project.splits_file, project.fingerprint_file, project.plan_file):
        file.unlink(missing_ok=True)
    if project.root.is_dir() and not keep_folder:
        project.root.rmdir()
