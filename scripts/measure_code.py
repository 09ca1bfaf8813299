"""Measure the code base: sizes of files, imports, class chains, and files opened to follow a task.

`python scripts/measure_code.py` prints a table. The traced rows run on phantom scans and take about
a minute; `--static` leaves them out. `--write` also puts the table into
docs/explanation/architecture.md.
"""

import ast
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import torch

from tracoco.demo.run import write_phantoms
from tracoco.inference.predict import predict_scans
from tracoco.methods import METHODS, method_class
from tracoco.methods.method import Method
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.prepare import prepare
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.train import train

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "tracoco"
PAGE = SOURCE.parent / "docs" / "explanation" / "architecture.md"
BEGIN = "| figure | value |\n|---|---|\n"
"""Where the figures begin on the page, which ends with them."""
SHORT = 60
"""Lines below which a file with a single importer could be part of that importer."""


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: set[str]) -> set[str]:
    """The modules of the package that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def import_lines(path: Path) -> tuple[int, int]:
    """Lines of import statements, and lines that are neither empty nor comments."""
    text = path.read_text(encoding="utf-8")
    imports = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    lines = [line.strip() for line in text.splitlines()]
    return imports, sum(bool(line) and not line.startswith("#") for line in lines)


def closure(name: str, graph: dict[str, set[str]]) -> set[str]:
    """Everything that importing a module imports, itself included."""
    seen, waiting = set[str](), [name]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen


def static_rows() -> Iterator[tuple[str, str]]:
    """Figures that need no run."""
    known = modules()
    graph = {name: imported(path, set(known)) - {name} for name, path in known.items()}
    importers = {name: {other for other in graph if name in graph[other]} for name in graph}
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()
    }
    longest = max(lengths, key=lambda name: lengths[name])
    small = [name for name in known if lengths[name] < SHORT and len(importers[name]) == 1]
    counts = [import_lines(path) for path in known.values()]
    fraction = sum(imports for imports, _ in counts) / sum(lines for _, lines in counts)
    yield "files", str(len(known))
    yield "lines", f"{sum(lengths.values()):,}"
    yield "lines of a file, median", f"{median(lengths.values()):.0f}"
    yield "longest file", f"{longest}, {lengths[longest]}"
    yield f"files under {SHORT} lines with one importer", f"{len(small)}"
    yield "import lines, part of all code lines", f"{100 * fraction:.1f} %"
    yield "modules that one method imports, at most", _largest_closure(graph)
    yield "imports of training in inference", str(_forbidden(graph))
    yield "longest chain of method classes", _longest_chain()


def _largest_closure(graph: dict[str, set[str]]) -> str:
    sizes = {name: len(closure(row.target.split(":")[0], graph)) for name, row in METHODS.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    return f"{sizes[largest]} ({largest})"


def _forbidden(graph: dict[str, set[str]]) -> int:
    return sum(
        other.startswith(f"{PACKAGE}.training")
        for name in graph
        if name.startswith(f"{PACKAGE}.inference")
        for other in graph[name]
    )


def _longest_chain() -> str:
    chains = {
        name: sum(issubclass(part, Method) for part in method_class(name).__mro__)
        for name in METHODS
    }
    longest = max(chains, key=lambda name: chains[name])
    return f"{chains[longest]} ({longest})"


def opened(task: Callable[[], Any]) -> int:
    """How many files of the package have a function that a task calls."""
    files = set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        called = event == "call" and code.co_name not in {"<module>", "<lambda>"}
        if called and code.co_filename.startswith(str(SOURCE)):
            files.add(code.co_filename)

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return len(files)


def traced_rows(work: Path) -> Iterator[tuple[str, str]]:
    """Files that are opened to follow a prediction, a training step and `init`."""
    phantoms = write_phantoms(work, 0, None)
    projects = []
    init = opened(lambda: projects.append(init_project(phantoms.data, work / "project")))
    prepare(projects[0])
    config = load_config("demo", ["training.steps=2"])
    train(projects[0], config, work / "run")
    scan = next(iter(sorted(phantoms.test_images.iterdir())))
    predict = opened(lambda: predict_scans(work / "run", scan, work / "out"))
    process = Process(0, 1, torch.device("cpu"))
    experiment = Experiment.of(projects[0], config)
    method, source = experiment.method(process), experiment.source(process)
    step = opened(lambda: sum(method(source[0].to(process.device), 0).terms.values()).backward())
    yield "files opened by `init`", str(init)
    yield "files opened by a prediction", str(predict)
    yield "files opened by a TraCoCo step with its batch", str(step)


def main() -> None:
    """Print all figures."""
    rows = list(static_rows())
    if "--static" not in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as work:
            rows += traced_rows(Path(work))
    for name, figure in rows:
        print(f"{name:48}{figure}")
    if "--write" in sys.argv[1:]:
        text = PAGE.read_text(encoding="utf-8")
        lines = "".join(f"| {name} | {figure} |\n" for name, figure in rows)
        PAGE.write_text(f"{text.partition(BEGIN)[0]}{BEGIN}{lines}", encoding="utf-8")


if __name__ == "__main__":
    main()
