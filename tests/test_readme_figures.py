"""What the README says of real scans is what the committed results say."""

from benchmarks.real.collect import ROOT
from benchmarks.real.page import BEGIN, END, README, named, readme_block, with_results
from benchmarks.real.rows import read_grids


def test_the_results_of_the_readme_are_the_committed_ones() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert with_results(text, named(read_grids(ROOT))) == text, "run `make real-page`"


def test_it_has_four_lines_with_a_column_for_each_data_set() -> None:
    lines = [
        line for line in readme_block(named(read_grids(ROOT))).splitlines() if line.startswith("|")
    ]
    assert len(lines) == 2 + 4
    assert all(line.count("|") == 7 for line in lines)
