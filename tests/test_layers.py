"""Imports go one way: a folder knows only the folders above it."""

import ast
from pathlib import Path

import pytest
from scripts.measure_code import static_rows

PACKAGE = Path(__file__).parents[1] / "src" / "tracoco"
ORDER = [
    *("errors", "text", "console", "memory", "processes", "lock_file", "lock"),
    *("files", "geometry", "components", "slices"),
    *(
        "settings",
        "config",
        "presets",
        "scans",
        "project",
        "data",
    ),
    *("networks", "losses", "methods", "tracking", "runs", "inference", "evaluation", "training"),
    *("testing", "viewer", "labelling", "reporting", "serving"),
    *("studies", "demo", "cluster", "api", "cli", "__main__"),
]


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
    return {name.split(".")[1] for name in found if name.startswith("tracoco.")}


FILES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_stands_above_it(path: Path) -> None:
    place = ORDER.index(layer(path))
    for name in imported(path):
        assert ORDER.index(name) <= place, f"{path.name} ({layer(path)}) imports {name}"


def test_every_folder_has_its_place() -> None:
    assert {layer(path) for path in FILES} <= set(ORDER)


def test_the_code_base_stays_within_its_measures() -> None:
    figures = {name: figure.split(" ")[0] for name, figure in static_rows()}
    assert int(figures["files"]) <= 332
    assert 100 <= int(figures["lines of a file, median"]) <= 150
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= 350
    assert int(figures["files under 60 lines with one importer"]) <= 9  # all are commands
    assert float(figures["import lines, part of all code lines"]) <= 11
    assert int(figures["modules that one method imports, at most"]) <= 20
    assert int(figures["imports of training in inference"]) == 0
    assert int(figures["longest chain of method classes"]) <= 3


def test_no_module_is_called_utils() -> None:
    assert not [
        path for path in FILES if path.stem in {"utils", "util", "helper", "helpers", "misc"}
    ]
