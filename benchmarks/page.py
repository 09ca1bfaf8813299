"""docs/explanation/performance.md out of the file of results: `python -m benchmarks.page`."""

from pathlib import Path
from typing import Any

from benchmarks.row import RESULTS
from tracoco.files import read_json, write_text

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"

HEAD = """# Performance

Ours beside what people use, in one run on one machine: `make bench` measures, in less than a
quarter of an hour on two idle cores, and writes this page. Absolute times are those of the machine
below; the ratios are what carries over.

{machine}

Both sides use fp32 and the same number of threads, are warmed up first, run in turns, and the best
of several rounds counts. Their results are compared too: same crops, same values of metrics, same
resampled voxels. Memory is what a process allocates for itself; pages
mapped from files are not counted.

| what | against | ours | theirs | ratio | target | met |
|---|---|---|---|---|---|---|
"""

READING = """
## How to read it

- **Ratio** is how many times faster ours is where the target says "at least", and which part of
  theirs ours takes where it says "at most". Where a figure stands for itself, it is that figure.
- **The released step** is the authors' own order of work on the same two networks and the same
  crops, with its losses and its two optimizers. It also sends labelled crops through the passes
  that only unlabelled ones learn from; ours does not.
- **All but the networks' passes** is the price of the method as we wrote it. The passes alone are
  the floor: no change outside of the networks can make a step faster than them. Of the passes,
  convolutions and matrix products are the floor of the networks: the rest are normalisations,
  activations and copies.
- **Time against size** is the exponent of a power law fitted to the times of four sizes, from one
  to eight times: 1 is proportional, 2 would be quadratic.

## What was seen

"""


def main() -> None:
    """Write the page."""
    write_text(PAGE, page(read_json(RESULTS)))


def page(results: dict[str, Any]) -> str:
    """The page as Markdown."""
    rows = results["rows"]
    facts = "; ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in results["machine"].items()
    )
    table = "".join(f"| {' | '.join(_cells(row))} |\n" for row in rows)
    told = (row for row in rows if row["detail"])
    notes = "".join(f"- **{_capital(row['what'])}.** {row['detail']}\n" for row in told)
    return HEAD.format(machine=_capital(facts) + ".") + table + READING + notes


def _cells(row: dict[str, Any]) -> list[str]:
    theirs = "" if row["theirs"] is None else _figure(row["theirs"], row["unit"])
    ours, met = _figure(row["ours"], row["unit"]), "yes" if row["met"] else "**no**"
    return [row["what"], row["against"], ours, theirs, f"{row['ratio']:.3g}", row["target"], met]


def _figure(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} {unit}".strip()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    main()
