"""The tables of one grid: its rows, what they differ in, and the paired comparisons."""

from collections import Counter
from collections.abc import Iterable, Sequence

from benchmarks.real.comparing import (
    PAIRS,
    REFERENCE,
    Comparison,
    Pair,
    against_reference,
    compare,
    comparisons,
    one_after_the_other,
    p_text,
)
from benchmarks.real.markdown import interval_text, plain, settings, spread, table
from benchmarks.real.rows import GridResults, Row
from benchmarks.real.savings import saving
from benchmarks.real.texts import DRAWN
from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import GridRow
from tracoco.studies.benchmark.results import RunResult, over_seeds
from tracoco.studies.paper.published import published

PAIRED = ("pair", "difference of Dice", "95 % interval", "p", "corrected p", "reading")
MEASURED_ON = ("seeds", "cases")
PUBLISHED = {
    "+ CutMix": "CPS + CutMix",
    "+ translation consistency": "TraCo",
    "+ CRC": "TraCo + CRC",
}
"""Rows of a component grid as the paper's table calls them."""


def main_section(results: GridResults) -> str:
    """The rows of a main grid with all figures, and the comparisons that are asked about."""
    grid, (rows,) = results.grid, results.rows.values()
    lines = [line for name, row in grid.rows.items() if (line := _row_line(name, row))]
    parts = [f"{_network_text(rows[0])}\n\n"]
    parts += ["Rows that are more than a method's defaults:\n\n", *lines, "\n"] if lines else []
    return "".join([*parts, rows_and_pairs(rows, PAIRS)])


def component_section(results: GridResults) -> str:
    """Parts that are added one after the other, with the paper's Dice beside ours."""
    (rows,) = results.rows.values()
    done = [row for row in rows if row.results]
    if not done:
        return ""
    found = {each.first: each for each in comparisons(done, one_after_the_other(done))}
    paper = {each.row: each for each in published("component-ablation") if each.dataset == "la"}
    _conditions(_results(done))  # figures that do not compare are refused
    units = _same(_results(done), "units")
    head = ["parts", "seeds", "Dice, %", "Jaccard, %", f"HD95, {units}", f"ASD, {units}"]
    head += ["above the row before", "corrected p", "paper's Dice, %"]
    lines = []
    for row in done:
        cells = [plain(row.name), _seeds_text(row), *_quality(row)]
        step, printed = found.get(row.name), paper.get(PUBLISHED.get(row.name, ""))
        cells += [_above(step), p_text(step.p)] if step else ["", ""]
        lines.append([*cells, f"{printed.dice:.2f}" if printed else ""])
    return table(head, lines)


def method_section(results: GridResults) -> str:
    """All methods by their Dice, with what they cost."""
    (rows,) = results.rows.values()
    done = [row for row in rows if row.results]
    if not done:
        return ""
    found = {each.first: each for each in comparisons(done, against_reference(done))}
    head = ["", "method", "seeds", "Dice, %", f"above {REFERENCE}", "corrected p", "minutes"]
    ranked = sorted(done, key=lambda row: -mean_of(row, "dice"))
    lines, machine = [], timing_machine(done)
    for rank, row in enumerate(ranked, start=1):
        step = found.get(row.name)
        cells = [str(rank), plain(row.name), _seeds_text(row), _quality(row)[0], _above(step)]
        cells += [p_text(step.p) if step else "", _minutes(row, machine)]
        lines.append([*cells, _memory(row)])
    return f"{table([*head, 'memory, MB'], lines)}\n{_conditions(_results(done))}\n"


def label_section(results: GridResults) -> str:
    """Dice by the number of labels, and what ours with each number is worth."""
    (data,) = results.grid.datasets.values()
    head = ("labels", REFERENCE, "tracoco", "labels that supervised learning needs for the same")
    lines = []
    for labelled in data.labelled:
        cells = [_quality(row)[0] if row else "" for row in _both(results, labelled)]
        worth = saving(results, labelled)
        lines.append([str(labelled), *cells, worth.text if worth else ""])
    every = results.named("supervised-all")
    if every and every.results:
        count = next(iter(every.results.values())).labelled
        lines.append([f"all {count}", _quality(every)[0], "", ""])
    return table(head, lines) if any(any(line[1:]) for line in lines) else ""


def partial_section(results: GridResults) -> str:
    """A line for each way of drawing and of training."""
    head = ("drawn", "row", "seeds", "Dice, %", "Jaccard, %", "HD95", "ASD")
    lines = [
        [DRAWN[data], plain(row.name), _seeds_text(row), *_quality(row)]
        for data, rows in results.rows.items()
        for row in rows
        if row.results
    ]
    return table(head, lines) if lines else ""


def _both(results: GridResults, labelled: int) -> list[Row | None]:
    found = [results.named(name, labelled) for name in (REFERENCE, "tracoco")]
    return [row if row and row.results else None for row in found]


def missing_text(results: GridResults) -> str:
    """Which runs have no result yet, row by row; empty if all have."""
    words = []
    for rows in results.rows.values():
        several = len({row.labelled for row in rows if row.labelled}) > 1
        for row in rows:
            seeds = [
                r.seed for r in row.runs if r.seed not in row.results and r.seed not in row.failed
            ]
            labels = f" with {row.labelled} labels" if several and row.labelled else ""
            which = "seed" if len(seeds) == 1 else "seeds"
            if seeds:
                words.append(f"{plain(row.name)}{labels} ({which} {', '.join(map(str, seeds))})")
    missing, total = (
        len(results.missing),
        sum(len(r.runs) for x in results.rows.values() for r in x),
    )
    if not missing:
        return ""
    return f"Missing are {missing} of {total} runs: {'; '.join(words)}.\n"


def rows_and_pairs(rows: Sequence[Row], pairs: Iterable[Pair]) -> str:
    """The tables of one data set with one number of labels."""
    rows = [row for row in rows if row.tried]
    done = _results(rows)
    failed = [
        f"- {plain(row.name)}, seed {seed}: {plain(words)}\n"
        for row in rows
        for seed, words in row.failed.items()
    ]
    notes = ["\nRuns that ended without a result:\n\n", *failed] if failed else []
    if not done:
        return "".join(notes).lstrip()
    watermarks = dict.fromkeys(result.watermark for result in done if result.watermark)
    warning = "".join(f"**{plain(watermark)}**\n\n" for watermark in watermarks)
    reference = next((row for row in rows if row.name == REFERENCE), None)
    units = _same(done, "units")
    head = ["row", "labelled / unlabelled", "seeds", "Dice, %", "Jaccard, %", f"HD95, {units}"]
    head += [f"ASD, {units}", "missed", "minutes", "memory, MB", "time, memory", "Dice"]
    machine = timing_machine(rows)
    main = table(head, [_cells(row, reference, machine) for row in rows])
    main += f"\nThe last two columns are relative to {REFERENCE}: multiples, and points with their "
    main += "95 % interval.\n"
    cells = [_pair_cells(comparison) for comparison in comparisons(rows, pairs)]
    paired = f"\n{table((*PAIRED, *MEASURED_ON), cells)}" if cells else ""
    return f"{warning}{main}\n{_conditions(done)}\n{''.join(notes)}{paired}"


def mean_of(row: Row, name: str) -> float:
    """The mean of a figure over the seeds of a row that has results; 0 without the figure."""
    found = over_seeds(list(row.results.values()), name)
    return found.mean if found else 0.0


def timing_machine(rows: Iterable[Row]) -> str:
    """The machine that most of the runs were trained on: times of others do not compare."""
    most = Counter(result.machine for result in _results(rows)).most_common(1)
    return most[0][0] if most else ""


def mean_seconds(row: Row, machine: str) -> float | None:
    """The mean of a row's times on a machine; None if none of its runs was trained there."""
    found = over_seeds([each for each in _results([row]) if each.machine == machine], "seconds")
    return found.mean if found else None


def _minutes(row: Row, machine: str) -> str:
    seconds = mean_seconds(row, machine)
    return "" if seconds is None else f"{seconds / 60:.1f}"


def _results(rows: Iterable[Row]) -> list[RunResult]:
    return [result for row in rows for result in row.results.values()]


def _quality(row: Row) -> list[str]:
    results = list(row.results.values())
    cells = [spread(over_seeds(results, name)) for name in ("dice", "jaccard")]
    return cells + [spread(over_seeds(results, name), 2) for name in ("hd95", "asd")]


def _memory(row: Row) -> str:
    memory = over_seeds(list(row.results.values()), "peak_mb")
    return f"{memory.mean:.0f}" if memory else ""


def _above(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    return f"{comparison.interval.mean:+.2f} {interval_text(comparison.interval)}"


def _network_text(row: Row) -> str:
    """What the runs of a data set share, as far as the settings say it and not the plan."""
    spec = row.runs[0].spec
    config = spec.config(0)
    words = [f"Network `{config.network.name}` with {config.network.width} filters"]
    if config.data.crop:
        words.append(f"crops of {' x '.join(map(str, config.data.crop))} voxels")
    words += [f"preset `{spec.preset}`"] if spec.preset else []
    return f"{', '.join(words)}."


def _seeds_text(row: Row) -> str:
    """How many seeds are done, and of how many where some are missing."""
    done = len(row.results)
    all_runs = len(row.runs) or done  # a peer has no grid
    return str(done) if done == all_runs else f"{done} of {all_runs}"


def _row_line(name: str, row: GridRow) -> str:
    """What a row is, if its name alone does not say it."""
    words = [f"method `{row.method}`"] if row.method not in {None, name} else []
    words += ["every label"] if row.labelled == "all" else []
    words += [settings(row.set)] if row.set else []
    return f"- {plain(name)}: {', '.join(words)}\n" if words else ""


def _cells(row: Row, reference: Row | None, machine: str) -> list[str]:
    results = list(row.results.values())
    cells = [plain(row.name), "", _seeds_text(row)]
    if not results:
        return cells + [""] * 9
    cells[1] = " or ".join(dict.fromkeys(f"{r.labelled} / {r.unlabelled}" for r in results))
    cells += [*_quality(row), str(sum(result.missed for result in results))]
    cells += [_minutes(row, machine), _memory(row)]
    if reference is None or row is reference:
        return [*cells, "", ""]
    return [*cells, _times(row, reference, machine), _above(compare(row, reference))]


def _times(row: Row, reference: Row, machine: str) -> str:
    """Seconds and memory as multiples of the reference's, over all seeds of each."""
    seconds = [mean_seconds(each, machine) for each in (row, reference)]
    memory = [mean_of(each, "peak_mb") for each in (row, reference)]
    found = [f"{own / other:.1f}x" if own and other else "?" for own, other in (seconds, memory)]
    return ", ".join(found) if reference.results else ""


def _pair_cells(comparison: Comparison) -> list[str]:
    interval = comparison.interval
    reading = "not significant"
    if comparison.significant:
        reading = "higher" if interval.mean > 0 else "lower"
    seeds = ", ".join(map(str, comparison.seeds))
    if len(comparison.seeds) == 1:
        seeds += " alone, so only cases are resampled"
    if comparison.left_out:
        seeds += f"; not in both: {', '.join(map(str, comparison.left_out))}"
    pair = f"{plain(comparison.first)} − {plain(comparison.second)}"  # noqa: RUF001 - a minus
    cells = [pair, f"{interval.mean:+.2f}", interval_text(interval), f"{interval.p:.4f}"]
    return [*cells, f"{comparison.p:.4f}", reading, seeds, str(comparison.cases)]


def _conditions(results: list[RunResult]) -> str:
    """How the runs were made and scored, as they say it themselves."""
    steps = " or ".join(f"{n:,}" for n in sorted({result.steps for result in results}))
    missed = {"missed": "a missed structure has none", "zero": "0 for a missed structure"}
    words = [
        f"{_same(results, 'cases')} cases, {steps} steps",
        f"checkpoint `{_same(results, 'checkpoint')}`",
        f"distances in {_same(results, 'units')}, {missed[_same(results, 'empty')]}",
    ]
    words += ["small components removed"] if _same(results, "cct") == "True" else []
    found: dict[str, set[str]] = {}
    for result in results:
        for name, value in result.versions.items():
            short = str(value)[:7] if name == "git" else str(value)
            found.setdefault(name, set()).update({short} - {""})
    made_with = [f"{n} {' and '.join(sorted(values))}" for n, values in found.items() if values]
    words += [f"made with {plain(', '.join(made_with))}"] if made_with else []
    words += _machine_words(results)
    return f"{'; '.join(words)}."


UNRECORDED = "a machine that was not recorded"
"""Results of before machines were recorded: they count as one machine of their own."""


def _machine_words(results: list[RunResult]) -> list[str]:
    """In which precision and where runs were trained; of several machines, whose times are told."""
    precisions = sorted({result.precision for result in results} - {""})
    words = [f"computed in {' and '.join(precisions)}"] if precisions else []
    counts = Counter(result.machine for result in results)
    names = {machine: plain(machine or UNRECORDED) for machine in counts}
    if any(counts):
        words.append(f"trained on {' and '.join(sorted(names.values()))}")
    if len(counts) > 1:
        (machine, _), *_ = counts.most_common(1)
        words.append(f"minutes are those of runs on {names[machine]}")
    return words


def _same(results: list[RunResult], name: str) -> str:
    """What all runs of a table must have in common, or their figures would not compare."""
    values = sorted({str(getattr(result, name)) for result in results})
    if len(values) > 1:
        where = results[0].dataset
        raise UserError(f"results on {where} have {name} {' and '.join(values)}; score them alike")
    return values[0]
