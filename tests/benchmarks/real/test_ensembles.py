"""The table of what averages gain, against values worked out by hand."""

from typing import TYPE_CHECKING

from benchmarks.real.ensembles import PLAIN, table

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_each_row_is_compared_with_network_1_case_by_case() -> None:
    rows: dict[str, list[Mapping[str, float]]] = {
        PLAIN: [{"a": 80.0, "b": 90.0}, {"a": 82.0, "b": 88.0}],
        "mean of both networks": [{"a": 81.0, "b": 91.0}, {"a": 83.0, "b": 89.0}],
        "mean of 2 seeds": [{"a": 85.0, "b": 93.0, "c": 10.0}],
    }
    assert list(table(rows))[2:] == [
        "| network 1 | 85.00 | |",
        "| mean of both networks | 86.00 | +1.00 [+1.00, +1.00] |",
        # The mean of a and b, 85 and 93, less that of the means of the two seeds, 81 and 89.
        "| mean of 2 seeds | 89.00 | +4.00 [+4.00, +4.00] |",
    ]
