"""The settings of a method with what their docstrings say: what each is, where its default is from.

Python keeps no docstrings of attributes, so they are read from the source.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tracoco.config import Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a method."""

    name: str
    default: Any
    about: str
    group: str
    """What the class that has it says of all of its settings, the source of their defaults too."""


def method_settings(config: type[Settings]) -> list[Setting]:
    """All settings of a method, those that it shares with others first."""
    found: dict[str, Setting] = {}
    for owner in reversed(config.__mro__):
        if issubclass(owner, Settings) and owner is not Settings:
            group = _one_line(inspect.getdoc(owner) or "")
            for name, about in _documented(owner).items():
                default = config.model_fields[name].get_default(call_default_factory=True)
                found.pop(name, None)
                found[name] = Setting(name, default, about, group)
    return list(found.values())


def _documented(owner: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field of a class, empty where there is none."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - the source of a class
    fields: dict[str, str] = {}
    last = ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            fields[last] = ""
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            fields[last] = _one_line(str(node.value.value))
            last = ""
    return {name: about for name, about in fields.items() if name in owner.model_fields}


def _one_line(text: str) -> str:
    return " ".join(text.split())
