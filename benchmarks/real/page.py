"""docs/explanation/results.md and its figure: `python -m benchmarks.real.page`."""

from collections.abc import Callable
from pathlib import Path
from textwrap import fill

from benchmarks.real import labelling
from benchmarks.real.collect import ROOT, read_committed
from benchmarks.real.comparing import PAIRS, comparisons, listed, sentence
from benchmarks.real.context import shifts_section, windows_section
from benchmarks.real.figure import Panel, Point, figure
from benchmarks.real.markdown import plain, spread, table
from benchmarks.real.rows import GridResults, Row, read_grids
from benchmarks.real.savings import headline, missing_rows, saving
from benchmarks.real.tables import (
    component_section,
    label_section,
    main_section,
    mean_of,
    mean_seconds,
    method_section,
    missing_text,
    partial_section,
    rows_and_pairs,
    timing_machine,
)
from benchmarks.real.texts import (
    ABOUT,
    ABOUT_PEER,
    CHAPTERS,
    COLUMNS,
    COMPONENTS,
    CONTEXT,
    DATA,
    HEAD,
    LABELS,
    MAIN,
    METHODS,
    PARTIAL,
    PEER,
    ROWS,
    RULES,
)
from tracoco.files import write_text
from tracoco.studies.benchmark.results import RunResult, kept_result, over_seeds

DOCS = ROOT.parents[1] / "docs"
README = DOCS.parent / "README.md"
PAGE = DOCS / "explanation" / "results.md"
FIGURE = PAGE.with_suffix(".svg")
PEERS = ROOT.parent / "peers" / "nnunet.json"
"""Results of nnU-Net, which `benchmarks.peers.nnunet` writes."""
BEGIN, END = "<!-- results: made by `make real-page` -->\n", "<!-- end of results -->"
"""What stands between these in the README is made from the results."""
ORDER = ("supervised", "cps", "tracoco")
"""Methods that every reader looks for, from the least expected to the most."""
SHOWN = ("supervised", "supervised-minutes", "cps", "tracoco")
"""Rows of the README."""
LABELLED = {"la": 8, "hippocampus": 3}
"""Labels that the headline speaks of, as in the main table."""
SECTIONS: dict[str, Callable[[GridResults], str]] = {
    MAIN: main_section,
    COMPONENTS: component_section,
    METHODS: method_section,
    LABELS: label_section,
    PARTIAL: partial_section,
}
Grids = dict[str, GridResults]
Peers = dict[str, list[Row]]
"""Rows of the peer by data set."""


def main() -> None:
    """Write the page, its figure, and the results in the README."""
    grids, peers = named(read_grids(ROOT)), read_peers(PEERS)
    write_text(PAGE, page(grids, peers))
    write_text(FIGURE, figure(panels(grids, peers)))
    write_text(README, with_results(README.read_text(encoding="utf-8"), grids))


def named(grids: list[GridResults]) -> Grids:
    """Grids by their names."""
    return {grid.name: grid for grid in grids}


def read_peers(path: Path) -> Peers:
    """The peer's rows by data set; none before it has run."""
    found: dict[str, dict[tuple[str, int], dict[int, RunResult]]] = {}
    for values in read_committed(path).values():
        result = kept_result(values, path)[1]
        rows = found.setdefault(result.dataset, {})
        rows.setdefault((values["row"], result.labelled), {})[result.seed] = result
    return {
        data: [Row(name, labels, (), results, {}) for (name, labels), results in rows.items()]
        for data, rows in found.items()
    }


def page(grids: Grids, peers: Peers) -> str:
    """The page as Markdown."""
    image = f"![Dice against minutes of training, a point for each row]({FIGURE.name})\n"
    words = "".join(f"- {each}\n" for each in answers(grids))
    parts = [HEAD, f"{opening(grids)}\n\n", image, "\n", first_table(grids, peers), "\n"]
    parts += ["Mean Dice (%) of held-out cases ± standard deviation over seeds, same number of "]
    parts += [
        "steps unless a row says otherwise. In bold: the best row with few labels.\n\n",
        words,
    ]
    parts += [_fold("How to read the tables", RULES)]
    for chapter in CHAPTERS:
        names = [f"{data}{chapter.kind}" for data in DATA if f"{data}{chapter.kind}" in grids]
        bodies = [_grid_part(grids[name], SECTIONS[chapter.kind]) for name in names]
        about = f"{fill(chapter.question, 100)}\n"
        parts += [f"\n## {chapter.title}\n\n{about}", *bodies]
    return "".join([*parts, labelling.section(ROOT), _context(grids), _peer(grids, peers)])


def opening(grids: Grids) -> str:
    """The headline, and for which data sets it is not known yet and why."""
    found, unknown = [], []
    for data, labelled in LABELLED.items():
        grid = grids.get(f"{data}{LABELS}")
        worth = saving(grid, labelled) if grid else None
        if worth:
            found.append((DATA[data], worth))
        elif grid:
            unknown.append(f"{DATA[data]}: {missing_rows(grid, labelled)}")
    parts = [f"**{headline(found)}**"] if found else []
    if unknown:
        text = "How many labels unlabelled scans save is not known yet. Missing are runs on "
        parts.append(fill(f"{text}{'; on '.join(unknown)}.", 100))
    return "\n\n".join(parts)


def answers(grids: Grids) -> list[str]:
    """What the main tables say of each pair, a sentence each."""
    tables = {
        data: comparisons(next(iter(grids[data].rows.values())), PAIRS)
        for data in DATA
        if data in grids
    }
    found = []
    for first, second in PAIRS:
        here = [
            (DATA[data], each)
            for data, every in tables.items()
            for each in every
            if (each.first, each.second) == (first, second)
        ]
        found.append(sentence(ROWS[first], ROWS[second], here))
    return [each for each in [ordering(grids), *found] if each]


def ordering(grids: Grids) -> str:
    """On which data sets the means of the three rows have the order that the paper has."""
    holds, fails = list[str](), list[str]()
    for data in DATA:
        rows = [grids[data].named(name) for name in ORDER] if data in grids else []
        dice = [mean_of(row, "dice") for row in rows if row and row.results]
        if len(dice) == len(ORDER):
            (holds if dice == sorted(dice) else fails).append(DATA[data])
    order = "TraCoCo above CPS above supervised learning"
    if not holds and not fails:
        return ""
    if not fails:
        return f"By the means, {order} holds on {listed(holds)}."
    where = f"on {listed(holds)}, and not on {listed(fails)}" if holds else "on no data set"
    return f"By the means, the order {order} holds {where}."


def first_table(grids: Grids, peers: Peers) -> str:
    """One line per row, one column per data set."""
    cells: dict[str, list[str]] = {name: [] for name in ROWS}
    for data in DATA:
        rows = {row.name: row for row in peers.get(data, [])}
        rows |= {n: row for n in ROWS if data in grids and (row := grids[data].named(n))}
        done = {name: row for name, row in rows.items() if row.results}
        few = [name for name in done if name in ROWS and done[name].labelled]
        best = max(few, key=lambda name: mean_of(done[name], "dice"), default="")
        for name, line in cells.items():
            text = (
                spread(over_seeds(list(done[name].results.values()), "dice"))
                if name in done
                else ""
            )
            line.append(f"**{text}**" if name == best else text or "not run")
    lines = [[ROWS[name], *line] for name, line in cells.items()]
    return table(["mean Dice, %", *COLUMNS.values()], lines)


def panels(grids: Grids, peers: Peers) -> list[Panel]:
    """Dice against minutes where all methods are compared."""
    found = []
    for data in DATA:
        if f"{data}{METHODS}" not in grids or data not in grids:
            continue
        rows = {row.name: row for row in peers.get(data, [])}
        for grid in (grids[f"{data}{METHODS}"], grids[data]):
            rows |= {row.name: row for each in grid.rows.values() for row in each if row.results}
        every = rows.pop("supervised-all", None)
        machine = timing_machine(rows.values())
        points = tuple(
            Point(name, seconds / 60, mean_of(row, "dice"), _kind(name))
            for name, row in rows.items()
            if (seconds := mean_seconds(row, machine))
        )
        if points:
            bound = mean_of(every, "dice") if every else None
            found.append(Panel(f"{COLUMNS[data].partition(',')[0]}", points, bound))
    return found


def _kind(name: str) -> str:
    if name.startswith("nnunet"):
        return "peer"
    return "ours" if name == "tracoco" else "known" if name in ROWS else "other"


def readme_block(grids: Grids) -> str:
    """The headline, and some lines of the first table."""
    known = [data for data in DATA if data in grids]
    found = [
        (DATA[data], worth)
        for data, labelled in LABELLED.items()
        if f"{data}{LABELS}" in grids and (worth := saving(grids[f"{data}{LABELS}"], labelled))
    ]
    lines = []
    for name in SHOWN:
        rows = [grids[data].named(name) for data in known]
        cells = [f"{mean_of(row, 'dice'):.1f}" if row and row.results else "" for row in rows]
        lines.append([ROWS[name], *cells])
    head = ["mean Dice (%) on held-out test scans", *(COLUMNS[data] for data in known)]
    return (f"{fill(headline(found), 100)}\n\n" if found else "") + table(head, lines)


def with_results(readme: str, grids: Grids) -> str:
    """The README with the results as they are now."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{readme_block(grids)}{END}{after}"


def _grid_part(grid: GridResults, section: Callable[[GridResults], str]) -> str:
    about = fill(ABOUT.get(grid.name, ""), 100)
    missing = missing_text(grid)
    body = "\n".join(
        part for part in (f"{about}\n" if about else "", section(grid), missing) if part
    )
    return _fold(plain(grid.grid.title), body)


def _context(grids: Grids) -> str:
    """What was measured of the context, or that it was not."""
    parts = [f"\n## {CONTEXT}\n"]
    for data in LABELLED:
        grid = grids.get(data)
        if grid and (grid.shifts or grid.windows):
            body = shifts_section(grid.shifts) + windows_section(grid.windows)
            parts.append(_fold(plain(grid.grid.title), body))
        elif grid:
            parts.append(f"\nNot measured yet on {DATA[data]}: `measure_context {data}`.\n")
    return "".join(parts)


def _peer(grids: Grids, peers: Peers) -> str:
    """The peer beside our rows, or that it has not run."""
    parts = [f"\n## {PEER}\n\n{ABOUT_PEER}\n"]
    for data in DATA:
        if data not in grids:
            continue
        ours = [
            row
            for n in ("supervised", "supervised-minutes", "tracoco")
            if (row := grids[data].named(n))
        ]
        if data in peers:
            pairs = [(row.name, theirs.name) for row in ours for theirs in peers[data]]
            body = rows_and_pairs([*peers[data], *ours], pairs)
            parts.append(_fold(plain(grids[data].grid.title), body))
    without = [DATA[data] for data in DATA if data in grids and data not in peers]
    if without:
        parts.append(f"\nNot run: {', '.join(without)}.\n")
    return "".join(parts)


def _fold(title: str, body: str) -> str:
    return f"\n<details><summary>{title}</summary>\n\n{body.strip()}\n\n</details>\n"


if __name__ == "__main__":
    main()
