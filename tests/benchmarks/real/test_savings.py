"""How many labels are saved, worked out by hand on small curves."""

import numpy as np
import pytest
from benchmarks.real.rows import GridResults, Row
from benchmarks.real.savings import Saving, crossing, headline, missing_rows, saving
from small_grid import RESULT, labelled_result

from tracoco.studies.benchmark.grid import Grid, grid_runs

GRID = Grid.model_validate(
    {
        "title": "curves",
        "datasets": {"balls": {"labelled": [2, 8]}},
        "rows": {
            "supervised": {},
            "tracoco": {},
            "supervised-all": {"method": "supervised", "labelled": "all"},
        },
        "seeds": [0, 1],
    }
)


def curves(dice: dict[tuple[str, int | None], list[float]], every: int = 32) -> GridResults:
    """Rows whose cases a and b have the Dice of the row, and 1 more with seed 1."""
    rows = []
    for (name, labelled), cases in dice.items():
        runs = tuple(r for r in grid_runs(GRID) if (r.row, r.labelled) == (name, labelled))
        results = {
            run.seed: labelled_result(labelled or every, [case + run.seed for case in cases])
            for run in runs
        }
        rows.append(Row(name, labelled, runs, results, {}))
    return GridResults("balls-labels", GRID, {"balls": tuple(rows)}, (), ())


def test_a_curve_is_crossed_between_two_numbers_by_their_logarithm() -> None:
    counts, dice = [2, 8, 32], np.array([60.0, 70.0, 80.0])
    assert crossing(counts, dice, 65.0) == pytest.approx(4.0)  # halfway from 2 to 8
    assert crossing(counts, dice, 70.0) == pytest.approx(8.0)
    assert crossing(counts, dice, 72.5) == pytest.approx(8 * 4**0.25)
    assert crossing(counts, dice, 59.0) == 2.0
    assert crossing(counts, dice, 80.1) == float("inf")


def test_a_curve_that_falls_keeps_its_largest_value() -> None:
    assert crossing([2, 8, 32], np.array([60.0, 70.0, 65.0]), 70.0) == pytest.approx(8.0)
    assert crossing([2, 8, 32], np.array([60.0, 50.0, 80.0]), 70.0) == pytest.approx(16.0)


def test_the_saving_has_an_interval_over_the_same_cases_for_all_rows() -> None:
    grid = curves(
        {
            ("supervised", 2): [60.0, 64.0],
            ("supervised", 8): [70.0, 74.0],
            ("supervised-all", None): [80.0, 84.0],
            ("tracoco", 2): [65.0, 69.0],
        }
    )
    found = saving(grid, 2)
    assert found is not None
    # All rows go up and down together with cases and seeds, so every draw has the same crossing.
    assert (found.equal, found.low, found.high) == pytest.approx((4.0, 4.0, 4.0))
    assert (found.fewest, found.most) == (2, 32)
    assert found.significant
    text = headline([("balls", found)])
    assert text == (
        f"On balls, TraCoCo with 2 labelled and {RESULT.unlabelled} unlabelled scans is as good as "
        "supervised learning with 4 labelled scans (95 % interval 4 to 4): unlabelled scans save 2 "
        "labels."
    )


def test_cases_that_disagree_make_the_interval_wide_and_ends_are_said() -> None:
    grid = curves(
        {
            ("supervised", 2): [60.0, 60.0],
            ("supervised", 8): [70.0, 70.0],
            ("supervised-all", None): [80.0, 80.0],
            ("tracoco", 2): [50.0, 90.0],
        }
    )
    found = saving(grid, 2)
    assert found is not None
    # Each case is drawn twice in a quarter of the draws: then the crossing lies beyond an end.
    assert found.equal == pytest.approx(8.0)
    assert (found.low, found.high) == (2.0, float("inf"))
    assert found.text == "8 [at most 2, more than 32]"
    assert headline([("balls", found)]).endswith("the saving is not significant.")


def test_what_is_better_than_all_labels_is_said_and_a_loss_too() -> None:
    above = Saving(2, 18, float("inf"), 20.0, float("inf"), 2, 32)
    assert "is above supervised learning with all 32 labels" in headline([("balls", above)])
    below = Saving(8, 18, 4.0, 3.0, 6.0, 2, 32)
    assert headline([("balls", below)]).endswith("unlabelled scans cost 4 labels.")
    assert headline([]) == ""


def test_there_is_none_while_a_run_is_missing_and_the_row_is_named() -> None:
    grid = curves(
        {
            ("supervised", 2): [60.0, 64.0],
            ("supervised-all", None): [80.0, 84.0],
            ("tracoco", 2): [65.0, 69.0],
        }
    )
    grid.rows["balls"][0].results.pop(1)
    assert saving(grid, 2) is None
    assert missing_rows(grid, 2) == "supervised with 2 labels"
    assert saving(grid, 8) is None
