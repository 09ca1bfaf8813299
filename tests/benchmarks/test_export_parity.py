"""The table of docs/how-to/export.md is that of the committed figures, which keep the promise."""

import re
from collections import defaultdict
from dataclasses import asdict

from benchmarks.export_parity import (
    BEGIN,
    DATA,
    END,
    PAGE,
    RESULTS,
    RUN,
    Row,
    needed_without_torch,
    with_table,
)

from tracoco.files import read_json
from tracoco.inference.export import LEAST_EQUAL, MOST_DIFFERENT, SUFFIXES


def rows() -> list[Row]:
    return [Row(**row) for row in read_json(RESULTS)["rows"]]


def test_the_committed_table_is_made_of_the_committed_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    command = "run `python -m benchmarks.export_parity`"
    assert with_table(text, read_json(RESULTS)) == text, command


def test_the_page_names_the_packages_of_the_environment_without_torch() -> None:
    (named,) = re.findall(r"pip install (numpy .*)", PAGE.read_text(encoding="utf-8"))
    assert named.split() == needed_without_torch()


def test_every_format_was_measured_in_2d_and_3d_and_has_the_labels_of_the_run() -> None:
    formats = defaultdict[str, set[str]](set)
    for row in rows():
        formats[row.data].add(row.format)
        assert row.same_labels >= LEAST_EQUAL, row
        assert row.largest_difference <= MOST_DIFFERENT, row
    assert dict(formats) == {data: {RUN, *SUFFIXES} for data in DATA}


def test_a_table_has_a_line_for_each_format_and_keeps_what_is_around_it() -> None:
    made = [Row("acdc", RUN, 2, 1), Row("acdc", "onnx", 1.234, 3.21, 0.99995, 2e-5)]
    page = with_table(f"a\n{BEGIN}old\n{END}\nb\n", {"rows": [asdict(row) for row in made]})
    assert page.startswith(f"a\n{BEGIN}| format |")
    assert page.endswith(f"{END}\nb\n")
    assert "old" not in page
    assert "| the run |  |  | 2.00 | 1.0 |\n" in page
    assert "| `onnx` | 99.9950 % | 2.0e-05 | 1.23 | 3.2 |\n" in page
