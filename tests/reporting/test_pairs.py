"""Every two evaluated runs on the cases that both have."""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from tracoco.errors import UserError
from tracoco.evaluation.bootstrap import holm, paired_interval
from tracoco.evaluation.scores import Protocol
from tracoco.files import read_json, write_json
from tracoco.reporting.pairs import FEWEST_CASES, compare_pairs, compare_with_pairs, pairs_table

if TYPE_CHECKING:
    from reporting.conftest import Bench

Label = NDArray[np.uint8]
# A cube of three voxels a side that is moved by one or two: 2/3 and 1/3 of it are found.
DICE = {2: 100.0, 3: 200 / 3, 4: 100 / 3}


def cases(bench: "Bench", starts: list[int], first: int = 0) -> dict[str, tuple[Label, Label]]:
    truth = bench.cube(2)
    return {f"c{first + i}": (bench.cube(start), truth) for i, start in enumerate(starts)}


def scored(bench: "Bench", name: str, starts: list[int], first: int = 0, **note: Any) -> Path:
    run = bench.run(name)
    bench.scores(run, cases(bench, starts, first), **note)
    return run


def test_two_runs_are_compared_case_by_case(bench: "Bench") -> None:
    good, bad = [2, 2, 3, 2, 2, 3, 2], [2, 3, 4, 3, 3, 3, 2]
    runs = [scored(bench, "good", good), scored(bench, "bad", bad)]
    (pair,) = compare_pairs(runs)
    differences = [DICE[a] - DICE[b] for a, b in zip(good, bad, strict=True)]
    expected = paired_interval(np.array([differences]))
    assert (pair.first, pair.second, pair.cases, pair.note) == (*map(str, runs), 7, "")
    # Four of seven cases are a third of a structure better: 4 * 33.3 / 7.
    assert pair.difference == pytest.approx(400 / 3 / 7)
    assert (pair.low, pair.high) == pytest.approx((expected.low, expected.high))
    assert pair.p == pair.p_corrected == pytest.approx(expected.p)
    assert 0 < pair.low < pair.difference < pair.high  # type: ignore[operator]  # none is None


def test_only_common_cases_count(bench: "Bench") -> None:
    runs = [scored(bench, "a", [2] * 8), scored(bench, "b", [3] * 8, first=2)]
    (pair,) = compare_pairs(runs)
    assert pair.cases == 6
    assert pair.difference == pytest.approx(100 / 3)
    runs.append(scored(bench, "c", [3] * 8, first=20))
    assert [pair.note for pair in compare_pairs(runs)] == ["", *["no case in common"] * 2]


def test_few_cases_have_no_interval(bench: "Bench") -> None:
    few = FEWEST_CASES - 1
    (pair,) = compare_pairs([scored(bench, "a", [2] * few), scored(bench, "b", [3] * few)])
    assert pair.difference == pytest.approx(100 / 3)
    assert (pair.low, pair.high, pair.p, pair.p_corrected) == (None,) * 4
    assert pair.note == "fewer than 6 cases"


def test_p_values_are_corrected_for_the_number_of_pairs_that_have_one(bench: "Bench") -> None:
    starts = {"a": [2] * 7, "b": [3, 2, 2, 3, 2, 2, 2], "c": [3] * 7, "d": [2] * 3}
    runs = [scored(bench, name, each) for name, each in starts.items()]
    pairs = compare_pairs(runs)
    assert len(pairs) == 6
    known = [pair for pair in pairs if pair.p is not None]
    assert len(known) == 3
    corrected = holm([pair.p for pair in known if pair.p is not None])
    assert [pair.p_corrected for pair in known] == corrected
    assert corrected != [pair.p for pair in known]


def test_scores_by_other_conventions_are_not_compared(bench: "Bench") -> None:
    first, other = scored(bench, "a", [2] * 6), scored(bench, "b", [3] * 6)
    zero = scored(bench, "c", [3] * 6, protocol=Protocol(units="voxel", empty="zero"))
    path = other / "predictions" / "test" / "scores.json"
    values = read_json(path)
    rows = values["rows"] + [row | {"label": 2, "name": "wall"} for row in values["rows"]]
    write_json(path, values | {"rows": rows})
    notes = [pair.note for pair in compare_pairs([first, other, zero])]
    assert notes == ["other classes", "empty masks count differently", "other classes"]


def test_all_of_it_is_written_as_csv(bench: "Bench", tmp_path: Path) -> None:
    runs = [scored(bench, "a", [2] * 6), scored(bench, "b", [3] * 6)]
    found = compare_with_pairs(runs, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "table-pairs.csv").open(newline="") as file:
        (pair,) = csv.DictReader(file)
    assert [row["run"] for row in rows] == [str(run) for run in runs]
    assert float(rows[0]["dice"]) == found.rows[0].dice == 100
    assert float(pair["difference"]) == found.pairs[0].difference
    assert json.loads(json.dumps(found.to_json()))["pairs"][0]["cases"] == 6
    with pytest.raises(UserError, match=r"does not end with \.csv"):
        compare_with_pairs(runs, tmp_path / "table.txt")


def test_the_table_names_runs_and_sets_as_far_as_they_differ(bench: "Bench") -> None:
    runs = [scored(bench, "a", [2] * 6), scored(bench, "b", [3] * 6)]
    file = io.StringIO()
    Console(width=100, file=file).print(pairs_table(compare_pairs(runs)))
    line = next(line for line in file.getvalue().splitlines() if line.split()[:1] == ["a"])
    assert line.split() == ["a", "b", "6", "+33.3", "[+33.3,", "+33.3]", "<", "0.001"]
    bench.scores(runs[0], cases(bench, [3] * 6), name="more")
    file = io.StringIO()
    Console(width=100, file=file).print(pairs_table(compare_pairs(runs)))
    assert "a (more)" in file.getvalue()
