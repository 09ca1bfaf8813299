"""The one exception that is shown to a user as a line, without a traceback, and its wording."""

import difflib
import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class UserError(Exception):
    """Something the user has to change: what is wrong, what was received, what to do."""


class Stopped(UserError):  # noqa: N818 - it is no error
    """A signal ended the work before its end; what was done is saved."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


def raise_all(problems: Sequence[str]) -> None:
    """Raise one error that names every problem, so that a data set is mended in one go."""
    if len(problems) == 1:
        raise UserError(problems[0])
    if problems:
        raise UserError(
            f"{len(problems)} problems:\n" + "\n".join(f"  {line}" for line in problems)
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a question, or all of them where none is near."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Refuse a value that is not one of the known ones; the command line cannot pass such a one."""
    known = tuple(known)
    if value not in known:
        raise UserError(f"{name} '{value}' does not exist; {did_you_mean(value, known)}")


def first_line(error: BaseException) -> str:
    """What an error of a library says first, to stand within a sentence of ours."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Note what the user has to change instead of stopping at it; `raise_all` follows later."""
    try:
        yield
    except Stopped:
        raise
    except UserError as error:
        problems.append(str(error))


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Say in one line that the disk is full, and which file did not fit."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise UserError(
                f"{path}: no space left on the disk; free some, then run the same command again"
            ) from error
        raise
