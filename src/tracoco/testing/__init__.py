"""For authors of methods: the checks that every method of this package passes, for one's own.

    from tracoco.testing import check_method

    check_method(MyMethod, row=ROW)  # or the name of a method that is registered or installed

No test framework is needed; the checks raise an `AssertionError` that says what to look at.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from tracoco.console import say
from tracoco.errors import UserError, did_you_mean, first_line
from tracoco.methods import MethodRow
from tracoco.methods.method import Method
from tracoco.methods.row import row_problem
from tracoco.testing.checks import CHECKS, Check
from tracoco.testing.subject import Subject
from tracoco.testing.two_ranks import check_two_ranks

__all__ = ["CHECKS", "Check", "Subject", "check_method"]

TWO_RANKS = "two processes hold the same weights after every step"


def check_method(
    method: type[Method] | str,
    row: MethodRow | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    two_ranks: bool = False,
    tell: Callable[[str], None] = say,
) -> None:
    """Check a method as every method of this package is checked; a line tells of each check.

    It takes from seconds to a minute, on random crops of 16 voxels along each axis and light
    networks of four filters, and writes no files.

    Args:
        method: its class, or the name of a method that is registered or installed.
        row: of a class that is not registered.
        settings: of the method, where they are not the defaults, e.g. a smaller part of it.
        only: names of checks in `CHECKS`, if not all are to be run.
        two_ranks: whether two processes are started as well, which takes some seconds more. The
            class must be at the top of a file, and a script needs `if __name__ == "__main__":`.
        tell: is given a line after each check; standard error by default.

    Raises:
        AssertionError: what is wrong in which check, and what to look at.
    """
    subject = Subject.of(method, row, settings)
    problem = row_problem(subject.row)
    if problem:
        raise AssertionError(f"{subject.name}: the row is wrong: {problem}")
    names = list(only) or list(CHECKS)
    for name in names:
        if name not in CHECKS:
            raise UserError(f"check '{name}' does not exist; {did_you_mean(name, CHECKS)}")
    for name in names:
        check = CHECKS[name]
        for dimensions, classes in check.cases_of(subject.row):
            title = f"{check.title} ({dimensions}D, {classes} classes)"
            run = partial(check.run, subject, dimensions, classes)
            _ask(subject, title, run, check.look_at, tell)
    if two_ranks:
        look_at = "random numbers, and steps that leave out a network (idle_networks)"
        _ask(subject, TWO_RANKS, partial(check_two_ranks, subject), look_at, tell)


def _ask(
    subject: Subject,
    title: str,
    run: Callable[[], None],
    look_at: str,
    tell: Callable[[str], None],
) -> None:
    """Run a check; tell that it passed, or raise what it found."""
    began = time.perf_counter()
    try:
        run()
    except Exception as error:
        found = str(error) if isinstance(error, AssertionError | UserError) else _named(error)
        raise AssertionError(f"{subject.name}: {title}: {found}; look at {look_at}") from error
    tell(f"{subject.name}: ok: {title}, {time.perf_counter() - began:.1f} s")


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
