"""Loss terms beside those of the releases, on fixed inputs.

`benchmarks/release_values.json` has each formula in words, the file of the release that it was read
in, and what it gives. Those numbers were worked out without this package, in plain numpy; entries
of the gradient are central differences.
"""

import json

import pytest
from benchmarks.release_cases import CASES
from benchmarks.release_table import FILE, Compared, compared, table, without_release

from tracoco.methods import METHODS

ROWS = compared()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.methods[0]}: {row.term}")
def test_a_term_has_the_value_and_the_gradient_of_the_release(row: Compared) -> None:
    assert row.ours[0] == pytest.approx(row.release[0], rel=1e-5)
    assert row.ours[1:] == pytest.approx(row.release[1:], rel=1e-4, abs=1e-6)
    assert row.difference < 1e-5


def test_every_method_has_a_row_or_a_reason_to_have_none() -> None:
    named = {name for row in ROWS for name in row.methods}
    without = set(without_release())
    assert not named & without
    assert named | without == set(METHODS), f"add a row or a reason to {FILE.name}"


def test_every_case_is_in_the_file_and_every_gradient_is_one() -> None:
    cases = [row["case"] for row in json.loads(FILE.read_text(encoding="utf-8"))["rows"]]
    assert sorted(cases) == sorted(CASES)
    assert all(any(row.release[1:]) for row in ROWS if row.term != "class weight")


def test_a_difference_is_told_by_the_power_of_ten_that_it_stays_below() -> None:
    row = Compared(("dhc",), "", "", "", (2.0, 0.1, 0.4), (2.0, 0.1, 0.4008))
    assert row.difference == pytest.approx(0.002)
    assert row.cells()[-1] == "< 0.01"
    assert Compared(("dhc",), "", "", "", (2.0,), (3.0,)).cells()[-1] == "0.5"
    assert len(table().splitlines()) == len(ROWS)
