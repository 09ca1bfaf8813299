"""Means over classes and cases by hand, and scores read back from their file."""

from pathlib import Path
from typing import Any

import pytest

from tracoco.errors import UserError
from tracoco.evaluation.scores import CaseScore, Evaluation, Protocol, read_evaluation, summarise
from tracoco.files import write_json


def test_means_are_over_classes_first_then_over_cases() -> None:
    # Case a: (100 + 50) / 2 = 75. Case b has one class: 25. Mean 50; of the three it is 58.3.
    scores = [
        CaseScore("a", 1, "1", dice=100.0, jaccard=100.0, nsd=100.0),
        CaseScore("a", 2, "2", dice=50.0, jaccard=20.0, nsd=60.0),
        CaseScore("b", 1, "1", dice=25.0, jaccard=10.0, nsd=40.0),
        CaseScore("b", 2, "2", absent=True),
    ]
    row = summarise(scores)
    assert row.cases == 2
    assert row.dice == pytest.approx(50)
    assert row.jaccard == pytest.approx(35)  # (60 + 10) / 2
    assert row.nsd == pytest.approx(60)  # (80 + 40) / 2
    # 75 and 25: 25 off the mean each, so the square root of 2 * 625 / (2 - 1).
    assert row.dice_sd == pytest.approx(1250**0.5)
    assert row.absent == 1


def test_distances_are_means_of_what_is_defined_and_misses_are_counted() -> None:
    scores = [
        CaseScore("a", 1, "1", dice=80.0, asd=1.0, assd=2.0, hd95=4.0),
        CaseScore("b", 1, "1", dice=60.0, asd=3.0, assd=4.0, hd95=8.0),
        CaseScore("c", 1, "1", dice=0.0, missed=True),
        CaseScore("d", 1, "1", dice=0.0, missed=True),
        CaseScore("e", 1, "1", dice=0.0, spurious=True),
    ]
    row = summarise(scores)
    assert (row.asd, row.assd, row.hd95) == (2.0, 3.0, 6.0)
    assert row.dice == pytest.approx(140 / 5)
    assert (row.cases, row.missed, row.spurious) == (5, 2, 1)


def test_volume_errors_do_not_cancel() -> None:
    errors = [CaseScore(case, 1, "1", volume_error=e) for case, e in (("a", 20.0), ("b", -20.0))]
    assert summarise(errors).volume_error == pytest.approx(20)


def test_nothing_defined_is_none_and_not_zero() -> None:
    row = summarise([CaseScore("a", 1, "1", dice=0.0, missed=True)])
    assert (row.dice, row.dice_sd) == (0.0, None)
    assert (row.asd, row.assd, row.hd95, row.nsd) == (None,) * 4
    assert summarise([]).dice is None


def scores_of_0_1_0() -> dict[str, Any]:
    """A `scores.json` as version 0.1.0 wrote it, without what later versions added."""
    row = {"case": "a", "label": 1, "name": "organ", "dice": 62.5, "hd95": 3.0, "missed": False}
    return {"protocol": {"units": "voxel", "empty": "zero", "tolerance": 2.0}, "rows": [row]}


def test_scores_of_an_earlier_version_are_percentages_and_are_read(tmp_path: Path) -> None:
    write_json(tmp_path / "scores.json", scores_of_0_1_0())
    found = read_evaluation(tmp_path / "scores.json")
    assert found.rows == (CaseScore("a", 1, "organ", dice=62.5, hd95=3.0),)
    assert (found.summary.dice, found.classes[0].dice, found.cases[0].dice) == (62.5, 62.5, 62.5)
    assert (found.protocol.units, found.watermark, found.prediction) == ("voxel", "", None)


def test_an_evaluation_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    rows = (
        CaseScore("a", 1, "left", dice=100 / 3, jaccard=20.0, volume_error=-50.0),
        CaseScore("a", 2, "right", absent=True),
    )
    evaluation = Evaluation(
        rows, Protocol(), tmp_path / "p", tmp_path / "t", "mark", predicted_with_cct=True
    )
    write_json(tmp_path / "scores.json", evaluation.to_json())
    assert read_evaluation(tmp_path / "scores.json") == evaluation
    assert [(row.label, row.name, row.absent) for row in evaluation.classes] == [
        (1, "left", 0),
        (2, "right", 1),
    ]


def test_a_score_that_is_no_number_is_named(tmp_path: Path) -> None:
    broken = scores_of_0_1_0()
    broken["rows"][0]["dice"] = "good"
    write_json(tmp_path / "scores.json", broken)
    with pytest.raises(UserError, match=r"scores\.json: rows\.0\.dice = 'good'"):
        read_evaluation(tmp_path / "scores.json")
