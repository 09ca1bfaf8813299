"""The table of methods, how one is found in it, and how it is built with its settings.

A new method is one file (its settings and its class) and one row: in `table.py`, registered by
the file itself, or named by an entry point of an installed package. Nothing else in the package
knows its name. A package names its rows in its `pyproject.toml`:

    [project.entry-points."tracoco.methods"]
    my-method = "my_package.my_module:ROW"

Its code is imported when such a method is asked for by name, and to list all methods. The methods
of this package are found without a look at what else is installed.
"""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import get_annotations
from typing import TYPE_CHECKING, Any

from tracoco.errors import UserError, did_you_mean, first_line
from tracoco.methods.row import FAMILIES, Family, MethodRow, Needs, name_problem, row_problem
from tracoco.methods.table import METHODS
from tracoco.settings import RENAMED, MethodChoice, Settings, checked

if TYPE_CHECKING:
    from tracoco.methods.method import Method, NetworkFactory, RunFacts

__all__ = [
    "FAMILIES",
    "INSTALLED",
    "METHODS",
    "SHIPPED",
    "Family",
    "MethodRow",
    "Needs",
    "build_method",
    "dropped_settings",
    "find_row",
    "load_installed",
    "method_class",
    "method_row",
    "register_method",
    "resolved_choice",
]

SHIPPED = frozenset(METHODS)
"""Methods of the package itself."""
GROUP = "tracoco.methods"
"""Entry points of methods."""
INSTALLED: set[str] = set()
"""Methods that were found by the entry points of other packages, and are in the table now."""


def method_row(name: str) -> MethodRow:
    """The row of a method, or an error that names the nearest one."""
    row = find_row(name)
    if row is None:
        known = {*METHODS, *_installed_names()}
        raise UserError(
            f"method '{name}' does not exist; {did_you_mean(name, known)}; one of your own is "
            "known only to commands that go through the file which registers it, or once a "
            "package is installed that brings it"
        )
    return row


def find_row(name: str) -> MethodRow | None:
    """The row of a method, of an installed package too; None if there is none.

    What else is installed is looked at for names that the table does not have.
    """
    if name not in METHODS:
        row = _installed_row(name)
        if row is None:
            return None
        register_method(name, row)
        INSTALLED.add(name)
    return METHODS[name]


def load_installed() -> list[str]:
    """Bring all methods of installed packages into the table; a line for each that is not used."""
    problems = _shadowed()
    for name in _installed_names():
        try:
            find_row(name)
        except UserError as error:
            problems.append(str(error))
    return problems


def method_class(name: str) -> "type[Method]":
    """Import a method's class."""
    target = method_row(name).target
    module, _, attribute = target.partition(":")
    try:
        found: type[Method] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if name in SHIPPED:
            raise
        problem = f"target '{target}' cannot be imported: {error}"
        raise UserError(f"the row of method '{name}' is wrong: {problem}") from error
    return found


def register_method(name: str, row: MethodRow) -> None:
    """Add a method that is not part of the package, for as long as this process lives.

    Whoever trains it, resumes it or predicts with it registers it first: a run's folder says
    which method it is of, and no code is read from there.
    """
    problem = name_problem(name)
    if problem:
        raise ValueError(problem)
    if name in SHIPPED:
        raise ValueError(f"method '{name}' is one of the package's; choose another name for yours")
    problem = row_problem(row)
    if problem:
        raise ValueError(f"the row of method '{name}' is wrong: {problem}")
    METHODS[name] = row


def build_method(
    choice: MethodChoice, build_network: "NetworkFactory", facts: "RunFacts"
) -> "Method":
    """Check the method's own settings, then build it."""
    method = method_class(choice.name)(_checked_settings(choice), build_network, facts)
    method.loss = facts.loss
    return method


def resolved_choice(choice: MethodChoice) -> MethodChoice:
    """The same choice with every setting spelt out."""
    return MethodChoice(name=choice.name, **_checked_settings(choice).model_dump())


def dropped_settings(choice: MethodChoice) -> list[str]:
    """What a preset says of the method that it names and the chosen one has no use for."""
    kept = {"name", *_shared_settings(choice)}
    return [key for key in choice.preset if key not in kept]


def _checked_settings(choice: MethodChoice) -> Settings:
    values, config = _shared_settings(choice) | choice.settings, method_class(choice.name).Config
    return checked(config, values, f"method {choice.name}", RENAMED.get(choice.name))


def _shared_settings(choice: MethodChoice) -> dict[str, Any]:
    """Those of a preset for another method that both methods have from one and the same class."""
    if not choice.preset:
        return {}
    own = method_class(choice.name).Config
    other = method_class(choice.preset["name"]).Config
    return {
        key: value
        for key, value in choice.preset.items()
        if key in own.model_fields and _owner(own, key) is _owner(other, key)
    }


def _owner(config: type[Settings], key: str) -> type | None:
    """The class that a setting is declared in, or declared anew."""
    return next((part for part in config.__mro__ if key in get_annotations(part)), None)


def _installed_names() -> list[str]:
    """Names of the methods that installed packages bring; nothing is imported."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def _installed_row(name: str) -> MethodRow | None:
    """The row of a method that an installed package brings; None if none has this name."""
    found = list(entry_points(group=GROUP, name=name))
    packages = sorted({_package(point) for point in found})
    if len(packages) > 1:
        raise UserError(
            f"method '{name}' is brought by several packages: {', '.join(packages)}; uninstall all "
            "but one"
        )
    return _load(found[0]) if found else None


def _shadowed() -> list[str]:
    """A line for each installed method that has the name of one of this package's."""
    return [
        f"package {_package(point)} brings a method '{point.name}', which is not used: a method of "
        "tracoco has this name; its authors have to choose another"
        for point in entry_points(group=GROUP)
        if point.name in SHIPPED
    ]


def _load(point: EntryPoint) -> MethodRow:
    try:
        row = point.load()
    except Exception as error:  # noqa: BLE001 - whatever the code of others raises
        problem = f"{type(error).__name__}: {first_line(error)}"
    else:
        problem = name_problem(point.name) or row_problem(row)
        if not problem and isinstance(row, MethodRow):
            return row
    raise UserError(
        f"method '{point.name}' of package {_package(point)} cannot be used: entry point "
        f"'{point.value}': {problem}; repair or uninstall the package"
    )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "of unknown name"
