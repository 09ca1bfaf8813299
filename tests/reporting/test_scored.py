"""Scores read back, and which cases to look at."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tracoco.errors import UserError
from tracoco.evaluation.scores import CaseScore, worst_first
from tracoco.reporting.run_record import find_scores, read_scores, worst_median_best

if TYPE_CHECKING:
    from reporting.conftest import Bench


def score(case: str, dice: float | None, *, missed: bool = False) -> CaseScore:
    return CaseScore(case, 1, "organ", dice=dice, missed=missed)


def names(*rows: CaseScore) -> list[str]:
    return [case.case for case in worst_first(rows)]


def test_cases_are_sorted_by_dice_and_those_without_any_are_last() -> None:
    assert names(score("a", 90.0), score("b", None), score("c", 10.0)) == ["c", "a", "b"]


def test_a_missed_structure_is_worse_than_any_found_one() -> None:
    # Two classes: 'a' has a mean of 45 with one class missed, 'b' of 5 with both found.
    rows = (score("b", 5.0), score("b", 5.0), score("a", 90.0), score("a", 0.0, missed=True))
    assert names(*rows) == ["a", "b"]


@pytest.mark.parametrize(
    ("dices", "picked"),
    [
        ([], {}),
        ([None], {}),
        ([50.0], {"only case": 0}),
        ([10.0, 50.0], {"worst": 0, "best": 1}),
        ([10.0, 50.0, 90.0], {"worst": 0, "median": 1, "best": 2}),
        ([10.0, 20.0, 30.0, 90.0], {"worst": 0, "median": 1, "best": 3}),
        ([10.0, 20.0, 30.0, 40.0, 90.0, None], {"worst": 0, "median": 2, "best": 4}),
    ],
)
def test_worst_median_and_best(dices: list[float | None], picked: dict[str, int]) -> None:
    cases = worst_first([score(str(index), dice) for index, dice in enumerate(dices)])
    found = {rank: int(case.case) for rank, case in worst_median_best(cases)}
    assert found == picked


def test_scores_are_percent_and_know_their_origin(bench: "Bench") -> None:
    scores = read_scores(bench.scores(bench.run()) / "scores.json")
    dices = {case.case: case.dice for case in scores.cases}
    # 27 voxels each, 18 of them shared: 2 * 18 / 54.
    assert dices == {"unseen": 0.0, "shifted": pytest.approx(66.667, abs=0.01), "found": 100.0}
    assert (scores.name, scores.manifest.checkpoint) == ("test", "last")


def test_test_comes_first_and_no_set_comes_twice(bench: "Bench") -> None:
    run = bench.run()
    for name in ("another", "test"):
        bench.scores(run, name=name)
    elsewhere = bench.scores(bench.run("other"), name="elsewhere")
    found = find_scores(run, [elsewhere, run / "predictions" / "test" / "scores.json"])
    assert [scores.name for scores in found] == ["test", "another", "elsewhere"]


def test_predictions_are_found_beside_the_scores_once_the_run_was_moved(bench: "Bench") -> None:
    run = bench.run()
    bench.scores(run)
    moved = run.rename(run.with_name("moved"))
    (scores,) = find_scores(moved)
    assert scores.prediction == moved / "predictions" / "test"


def test_a_file_that_holds_no_scores_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text('{"dice": 90}', encoding="utf-8")
    with pytest.raises(UserError, match=r"scores\.json"):
        read_scores(path)
