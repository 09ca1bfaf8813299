"""One problem of a data set: where it is, how bad it is, and what its owner can do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracoco.errors import UserError

Severity = Literal["error", "warning"]

# The last sentence of a message is the way out, or the last clause if there is only one sentence.
_SENTENCE = re.compile(r"(.*)\. (?=[A-Z`])(.*)", re.DOTALL)
_CLAUSE = re.compile(r"(.*); (.*)", re.DOTALL)

# How `raise_all` begins.
_SEVERAL = re.compile(r"\d+ problems:")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. An error stops a later command, a warning does not."""

    case: str
    """Empty where the data set as a whole is meant."""
    file: str
    severity: Severity
    problem: str
    fix: str


def error_rows(error: UserError, case: str = "", file: Path | None = None) -> list[Row]:
    """The rows of an error, one for each problem that it names."""
    first, *lines = str(error).splitlines()
    problems = lines if _SEVERAL.fullmatch(first) else [str(error)]
    return [_row(line.strip(), case, file) for line in problems]


def warning(case: str, file: Path | None, problem: str, fix: str) -> Row:
    """A row that stops nothing."""
    return Row(case, str(file or ""), "warning", problem, fix)


def fault(case: str, file: Path | None, problem: str, fix: str) -> Row:
    """A row of severity error."""
    return Row(case, str(file or ""), "error", problem, fix)


@contextmanager
def noted(rows: list[Row], case: str = "", file: Path | None = None) -> Iterator[None]:
    """Make rows of what the user has to change, and of files that cannot be opened; go on."""
    try:
        yield
    except UserError as error:
        rows += error_rows(error, case, file)
    except OSError as error:
        where = Path(error.filename) if error.filename else file
        rows.append(
            fault(case, where, f"cannot be read ({error.strerror})", "check path and permissions")
        )


def _row(message: str, case: str, file: Path | None) -> Row:
    """Take a message apart; the file is not said twice where the message starts with it."""
    match = _SENTENCE.fullmatch(message) or _CLAUSE.fullmatch(message)
    problem, fix = match.groups() if match else (message, "")
    if file:
        problem = problem.removeprefix(f"{file} ").removeprefix(f"{file}: ")
    return fault(case, file, problem, fix)
