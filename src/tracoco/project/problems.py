"""Going on after a problem, so that a person sees all of them at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from tracoco.errors import UserError


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Note what the user has to change instead of stopping at it; `raise_all` follows later."""
    try:
        yield
    except UserError as error:
        problems.append(str(error))
