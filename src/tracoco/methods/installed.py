"""Methods that installed packages bring, found by the entry points `tracoco.methods`.

A package names its rows in its `pyproject.toml`:

    [project.entry-points."tracoco.methods"]
    my-method = "my_package.my_module:ROW"

Its code is imported when such a method is asked for by name, and to list all methods. The methods
of this package are found without a look at what else is installed.
"""

from importlib.metadata import EntryPoint, entry_points

from tracoco.errors import UserError, first_line
from tracoco.methods.row import MethodRow, name_problem, row_problem
from tracoco.text import listed

GROUP = "tracoco.methods"


def installed_names() -> list[str]:
    """Names of the methods that installed packages bring; nothing is imported."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def installed_row(name: str) -> MethodRow | None:
    """The row of a method that an installed package brings; None if none has this name."""
    found = list(entry_points(group=GROUP, name=name))
    packages = sorted({_package(point) for point in found})
    if len(packages) > 1:
        raise UserError(
            f"method '{name}' is brought by several packages: {listed(packages)}; uninstall all "
            "but one"
        )
    return _load(found[0]) if found else None


def shadowed(own: frozenset[str]) -> list[str]:
    """A line for each installed method that has the name of one of this package's.

    Args:
        own: names of the methods of this package, which go first.
    """
    return [
        f"package {_package(point)} brings a method '{point.name}', which is not used: a method of "
        "tracoco has this name; its authors have to choose another"
        for point in entry_points(group=GROUP)
        if point.name in own
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
