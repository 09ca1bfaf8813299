"""The table of methods, and how one is found in it.

A new method is one file (its settings and its class) and one row: in `table.py`, or registered by
the file itself. Nothing else in the package knows its name.
"""

import re
from importlib import import_module
from typing import TYPE_CHECKING

from tracoco.errors import UserError, did_you_mean
from tracoco.methods.row import MethodRow
from tracoco.methods.table import METHODS

if TYPE_CHECKING:
    from tracoco.methods.method import Method

__all__ = ["METHODS", "SHIPPED", "MethodRow", "method_class", "method_row", "register_method"]

SHIPPED = frozenset(METHODS)
"""Methods of the package itself."""


def method_row(name: str) -> MethodRow:
    """The row of a method, or an error that names the nearest one."""
    if name not in METHODS:
        raise UserError(
            f"method '{name}' does not exist; {did_you_mean(name, METHODS)}; one of your own is "
            "known only to commands that go through the file which registers it"
        )
    return METHODS[name]


def method_class(name: str) -> "type[Method]":
    """Import a method's class."""
    module, _, attribute = method_row(name).target.partition(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found


def register_method(name: str, row: MethodRow) -> None:
    """Add a method that is not part of the package, for as long as this process lives.

    Whoever trains it, resumes it or predicts with it registers it first: a run's folder says
    which method it is of, and no code is read from there.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"'{name}' is no name of a method: use a-z, 0-9 and -, e.g. 'sure-labels'")
    if name in SHIPPED:
        raise ValueError(f"method '{name}' is one of the package's; choose another name for yours")
    METHODS[name] = row
