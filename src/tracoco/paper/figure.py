"""What every figure has in common: runs by title, a drawing, and the numbers behind it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.benchmark.runner import Runner
from tracoco.console import say
from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.paper.contents import Shown
from tracoco.paper.request import PaperRequest
from tracoco.report.wording import number

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure, and what it shows in numbers."""

    figure: Figure
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()


def figure_answer(
    name: str,
    title: str,
    draw: Callable[[PaperRequest, str], Drawn],
    request: PaperRequest,
    out: Path | None,
) -> Shown:
    """Draw a figure into a file and show its numbers."""
    data, project = _only_project(name, request)
    drawn = draw(request, data)
    path = out or project / "paper" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        drawn.figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=150)
    values = {"figure": name, "title": title, "file": str(path), "rows": list(drawn.rows)}
    return Shown(_table(title, drawn.rows), values, (*drawn.notes, f"figure: {path}"))


def runner_of(request: PaperRequest, data: str) -> Runner:
    """What trains and tests on the figure's project."""
    runner = request.runner(data)
    if runner is None:
        raise UserError(f"no project for {data}; give --project {data}=FOLDER")
    return runner


def trained_runs(
    request: PaperRequest, data: str, preset: str, variants: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, int, Path]]:
    """Title, seed and folder of each run of a figure, brought to its end one after the other.

    Args:
        request: on which projects, at which size, how many seeds.
        data: the figure's data set.
        preset: the paper's, where the request names no other.
        variants: what each run changes in the preset, by its title in the figure.
    """
    runner = runner_of(request, data)
    total, done = request.seeds * len(variants), 0
    for title, changes in variants.items():
        for seed in range(request.seeds):
            done += 1
            say(f"{done} of {total}: {title}, seed {seed}")
            yield title, seed, runner.trained(request.spec(preset, changes), seed)


def _only_project(name: str, request: PaperRequest) -> tuple[str, Path]:
    if len(request.projects) != 1:
        raise UserError(
            f"a figure is drawn from one project; tracoco paper {name} --project [DATASET=]FOLDER"
        )
    ((data, path),) = request.projects.items()
    return data, path


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    headings = list(rows[0]) if rows else []
    for heading in headings:
        table.add_column(heading.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[heading])) for heading in headings))
    table.title = Text(title)
    return table


def _cell(value: Any) -> str:
    return number(value, 3) if isinstance(value, float) or value is None else str(value)
