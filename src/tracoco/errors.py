"""The one exception that is shown to a user as a line, without a traceback."""

from collections.abc import Sequence


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
