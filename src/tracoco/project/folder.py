"""The project folder: where its files are, and how it comes to be."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.project.cases import Case, read_cases, write_cases
from tracoco.project.fingerprint import Fingerprint, take_fingerprint, write_fingerprint
from tracoco.project.layouts import find_cases
from tracoco.project.make_plan import make_plan
from tracoco.project.origin import Origin, read_origin, write_origin
from tracoco.project.plan import Plan
from tracoco.project.plan_file import read_plan, write_plan
from tracoco.project.proposal import Proposal, SplitChoice, propose
from tracoco.project.splits import Splits, check_splits, read_splits, write_splits

OnCase = Callable[[str], None]


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
    check_free(out)
    choice = SplitChoice(validation, test, seed, lists=split)
    return create_project(out, propose(find_cases(data, labels), choice), dimensions)


def check_free(out: Path) -> None:
    """Refuse a folder that something lies in."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(
            f"{out} exists already and is left as it is; choose another folder, or add new scans "
            "to a project with --update"
        )


def create_project(
    out: Path,
    proposal: Proposal,
    dimensions: Literal[2, 3] = 3,
    *,
    workers: int | None = 1,
    on_case: OnCase | None = None,
) -> Project:
    """Look at the scans, plan, and write the project; nothing is left of one that fails."""
    cases, splits = proposal.cases, proposal.splits
    fingerprint = take_fingerprint(cases, splits, on_case=on_case, workers=workers)
    plan = make_plan(fingerprint, dimensions, overrides=proposal.plan)
    planned = zip(plan.label_values, plan.class_names, strict=True)
    names = tuple(proposal.class_names.get(value, name) for value, name in planned)
    plan = plan.model_copy(update={"class_names": names})
    project, existed = Project(out), out.exists()
    try:
        write_project(project, proposal, fingerprint, plan)
    except BaseException:
        if out.is_dir() and not existed:
            out.rmdir()
        raise
    return project


def write_project(
    project: Project, proposal: Proposal, fingerprint: Fingerprint, plan: Plan | None = None
) -> None:
    """Write or replace the files of a project, all or none; the plan stays if none is given."""
    with ExitStack() as stack:

        def place(file: Path) -> Path:
            return stack.enter_context(atomic_path(file))

        # Put in place in the reverse order: with cases.json, the last, the folder is a project.
        write_cases(place(project.cases_file), proposal.cases)
        write_splits(place(project.splits_file), proposal.splits)
        write_fingerprint(place(project.fingerprint_file), fingerprint)
        write_origin(place(project.origin_file), proposal.origin)
        if plan:
            write_plan(place(project.plan_file), plan)
