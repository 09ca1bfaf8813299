"""What the README says of real scans is what the committed results say."""

from benchmarks.real.page import BEGIN, END, README, ROOT, readme_table, with_results
from benchmarks.real.rows import read_grids


def test_the_results_of_the_readme_are_the_committed_ones() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert with_results(text, read_grids(ROOT)) == text


def test_the_table_has_a_line_for_each_data_set_with_all_headline_methods() -> None:
    lines = readme_table(read_grids(ROOT)).splitlines()
    assert any("ACDC" in line for line in lines)
    assert all(line.count("|") == 6 for line in lines)
