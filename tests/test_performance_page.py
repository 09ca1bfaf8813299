"""docs/explanation/performance.md is what benchmarks/page.py makes of the committed results."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.agreement import DisagreementError, check_close
from benchmarks.page import page
from benchmarks.row import KEYS, Row, faster, part
from benchmarks.timing import growth_exponent

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "performance.json"
measured = pytest.mark.skipif(not RESULTS.exists(), reason="nothing was measured yet")
ROW = Row("this", "that", 2.0, 6.0, "s", 3.0, "at least", 2.5, "Seen twice.")


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


@measured
def test_the_committed_page_is_made_of_the_committed_results() -> None:
    written = (ROOT / "docs" / "explanation" / "performance.md").read_text(encoding="utf-8")
    assert written == page(results()), "run `python -m benchmarks.page`"


@measured
def test_each_committed_row_has_all_its_values() -> None:
    rows = results()["rows"]
    assert rows
    assert all(tuple(row) == KEYS for row in rows)
    assert {"processor", "cores", "threads", "torch"} <= results()["machine"].keys()


def test_a_row_on_the_page_has_its_figures_and_its_detail() -> None:
    text = page({"machine": {"cores": 2}, "rows": [ROW.to_json()]})
    assert "Cores 2." in text
    assert "| this | that | 2 s | 6 s | 3 | at least 2.5 | yes |" in text
    assert "- **This.** Seen twice." in text


def test_a_figure_that_stands_for_itself_has_no_other_side() -> None:
    row = Row("start", "a clock", 0.6, None, "s", 0.6, "at most", 0.5)
    text = page({"machine": {}, "rows": [row.to_json()]})
    assert "| start | a clock | 0.6 s |  | 0.6 | at most 0.5 | **no** |" in text
    assert "**Start.**" not in text, "there is nothing to tell of it"


def test_faster_is_their_time_in_ours_and_a_part_is_ours_in_theirs() -> None:
    assert faster("a", "b", (2.0, 6.0), 3.0, "").met
    assert not faster("a", "b", (2.0, 6.0), 3.1, "").met
    assert part("a", "b", (2.0, 6.0), "s", 0.34, "").met
    assert not part("a", "b", (2.0, 6.0), "s", 0.33, "").met


def test_a_cost_that_doubles_with_the_size_grows_with_its_first_power() -> None:
    assert growth_exponent([1, 2, 4, 8], [3, 6, 12, 24]) == pytest.approx(1.0)
    assert growth_exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2.0)


def test_results_that_differ_too_much_are_refused_and_so_are_other_shapes() -> None:
    check_close("values", [1.0, 100.0], [1.0, 100.9], 0.01)
    with pytest.raises(DisagreementError, match=r"values: 1\.1 apart, at most 1\.011"):
        check_close("values", [1.0, 100.0], [1.0, 101.1], 0.01)
    with pytest.raises(DisagreementError, match="shape"):
        check_close("values", [1.0], [1.0, 1.0], 0.01)
    with pytest.raises(DisagreementError, match="nan"):
        check_close("values", [float("nan")], [1.0], 0.01)
