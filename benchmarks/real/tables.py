"""The section of one grid: its rows, what they differ in, and the paired comparisons."""

from benchmarks.real.comparing import REFERENCE, Comparison, compare, comparisons
from benchmarks.real.markdown import interval_text, plain, settings, spread, table
from benchmarks.real.rows import GridResults, Row
from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import GridRow
from tracoco.studies.benchmark.results import RunResult, over_seeds

PAIRED = ("pair", "difference of Dice, points", "95 % interval", "reading", "seeds", "cases")


def grid_section(results: GridResults, about: str) -> str:
    """Everything about one grid, from its title on."""
    grid = results.grid
    rows = [line for name, row in grid.rows.items() if (line := _row_line(name, row))]
    common = [f"\nSet for all rows: {settings(grid.set)}.\n"] if grid.set else []
    parts = [f"## {plain(grid.title)}\n", *([f"\n{about}\n"] if about else []), *common]
    parts += ["\nRows that are more than a method's defaults:\n\n", *rows] if rows else []
    for name, data in grid.datasets.items():
        here = f"{_network_text(results.rows[name][0])}\n\n"
        here += f"Set for {plain(name)}: {settings(data.set)}.\n\n" if data.set else ""
        for labelled in data.labelled:
            shown = tuple(row for row in results.rows[name] if row.labelled in {labelled, None})
            if any(row.tried for row in shown):
                head = f"\n### {plain(name)}, {labelled} labelled\n\n{here}"
                parts.append(head + rows_and_pairs(shown))
    return "".join(parts)


def rows_and_pairs(rows: tuple[Row, ...]) -> str:
    """The tables of one data set with one number of labels."""
    waiting = [plain(row.name) for row in rows if not row.tried]
    rows = tuple(row for row in rows if row.tried)
    done = [result for row in rows for result in row.results.values()]
    failed = [
        f"- {plain(row.name)}, seed {seed}: {plain(words)}\n"
        for row in rows
        for seed, words in row.failed.items()
    ]
    notes = [f"\nNot run yet: {', '.join(waiting)}.\n"] if waiting else []
    notes += ["\nRuns that ended without a result:\n\n", *failed] if failed else []
    if not done:
        return "".join(notes).lstrip()
    watermarks = dict.fromkeys(result.watermark for result in done if result.watermark)
    warning = "".join(f"**{plain(watermark)}**\n\n" for watermark in watermarks)
    reference = next((row for row in rows if row.name == REFERENCE), None)
    units = _same(done, "units")
    head = ["row", "labelled / unlabelled", "seeds", "Dice, %", "Jaccard, %", f"HD95, {units}"]
    head += [f"ASD, {units}", "missed", "minutes", "memory, MB", "time, memory", "Dice"]
    main = table(head, [_cells(row, reference) for row in rows])
    main += f"\nThe last two columns are relative to {REFERENCE}: multiples, and points with their "
    main += "95 % interval.\n"
    pairs = [_pair_cells(comparison) for comparison in comparisons(rows)]
    paired = f"\n{table(PAIRED, pairs)}" if pairs else ""
    return f"{warning}{main}\n{_conditions(done)}\n{''.join(notes)}{paired}"


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
    done, all_runs = len(row.results), len(row.runs)
    return str(done) if done == all_runs else f"{done} of {all_runs}"


def _row_line(name: str, row: GridRow) -> str:
    """What a row is, if its name alone does not say it."""
    words = [f"method `{row.method}`"] if row.method not in {None, name} else []
    words += ["every label"] if row.labelled == "all" else []
    words += [settings(row.set)] if row.set else []
    return f"- {plain(name)}: {', '.join(words)}\n" if words else ""


def _cells(row: Row, reference: Row | None) -> list[str]:
    results = list(row.results.values())
    cells = [plain(row.name), "", _seeds_text(row)]
    if not results:
        return cells + [""] * 9
    cells[1] = " or ".join(dict.fromkeys(f"{r.labelled} / {r.unlabelled}" for r in results))
    cells += [spread(over_seeds(results, name)) for name in ("dice", "jaccard")]
    cells += [spread(over_seeds(results, name), 2) for name in ("hd95", "asd")]
    seconds, memory = (over_seeds(results, name) for name in ("seconds", "peak_mb"))
    cells += [str(sum(result.missed for result in results))]
    cells += [f"{seconds.mean / 60:.1f}" if seconds else "", f"{memory.mean:.0f}" if memory else ""]
    if reference is None or row is reference:
        return [*cells, "", ""]
    found = compare(row, reference)
    above = f"{found.interval.mean:+.2f} {interval_text(found.interval)}" if found else ""
    return [*cells, _times(row, reference), above]


def _times(row: Row, reference: Row) -> str:
    """Seconds and memory as multiples of the reference's, over all seeds of each."""
    found = []
    for name in ("seconds", "peak_mb"):
        own, others = (over_seeds(list(each.results.values()), name) for each in (row, reference))
        found.append(f"{own.mean / others.mean:.1f}x" if own and others else "?")
    return ", ".join(found) if reference.results else ""


def _pair_cells(comparison: Comparison) -> list[str]:
    interval = comparison.interval
    reading = "not separated"
    if interval.separated:
        reading = "higher" if interval.mean > 0 else "lower"
    seeds = ", ".join(map(str, comparison.seeds))
    if len(comparison.seeds) == 1:
        seeds += " alone, so only cases are resampled"
    if comparison.left_out:
        seeds += f"; not in both: {', '.join(map(str, comparison.left_out))}"
    pair = f"{plain(comparison.first)} − {plain(comparison.second)}"  # noqa: RUF001 - a minus
    difference = f"{interval.mean:+.2f}"
    return [pair, difference, interval_text(interval), reading, seeds, str(comparison.cases)]


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
    return f"{'; '.join(words)}."


def _same(results: list[RunResult], name: str) -> str:
    """What all runs of a table must have in common, or their figures would not compare."""
    values = sorted({str(getattr(result, name)) for result in results})
    if len(values) > 1:
        where = results[0].dataset
        raise UserError(f"results on {where} have {name} {' and '.join(values)}; score them alike")
    return values[0]
