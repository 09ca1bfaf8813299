"""Means over classes and cases, by hand."""

import pytest

from tracoco.evaluation.scores import CaseScore, summarise


def test_means_are_over_classes_first_then_over_cases() -> None:
    # Case a: (1 + 0.5) / 2 = 0.75. Case b has one class: 0.25. Mean 0.5; of the three it is 0.583.
    scores = [
        CaseScore("a", 1, "1", dice=1.0, jaccard=1.0, nsd=1.0),
        CaseScore("a", 2, "2", dice=0.5, jaccard=0.2, nsd=0.6),
        CaseScore("b", 1, "1", dice=0.25, jaccard=0.1, nsd=0.4),
        CaseScore("b", 2, "2", absent=True),
    ]
    row = summarise(scores)
    assert row.cases == 2
    assert row.dice == pytest.approx(50)
    assert row.jaccard == pytest.approx(35)  # (0.6 + 0.1) / 2
    assert row.nsd == pytest.approx(60)  # (0.8 + 0.4) / 2
    # 75 and 25: 25 off the mean each, so the square root of 2 * 625 / (2 - 1).
    assert row.dice_sd == pytest.approx(1250**0.5)
    assert row.absent == 1


def test_distances_are_means_of_what_is_defined_and_misses_are_counted() -> None:
    scores = [
        CaseScore("a", 1, "1", dice=0.8, asd=1.0, assd=2.0, hd95=4.0),
        CaseScore("b", 1, "1", dice=0.6, asd=3.0, assd=4.0, hd95=8.0),
        CaseScore("c", 1, "1", dice=0.0, missed=True),
        CaseScore("d", 1, "1", dice=0.0, missed=True),
        CaseScore("e", 1, "1", dice=0.0, spurious=True),
    ]
    row = summarise(scores)
    assert (row.asd, row.assd, row.hd95) == (2.0, 3.0, 6.0)
    assert row.dice == pytest.approx(100 * 1.4 / 5)
    assert (row.cases, row.missed, row.spurious) == (5, 2, 1)


def test_volume_errors_do_not_cancel() -> None:
    errors = [CaseScore(case, 1, "1", volume_error=e) for case, e in (("a", 0.2), ("b", -0.2))]
    assert summarise(errors).volume_error == pytest.approx(20)


def test_nothing_defined_is_none_and_not_zero() -> None:
    row = summarise([CaseScore("a", 1, "1", dice=0.0, missed=True)])
    assert (row.dice, row.dice_sd) == (0.0, None)
    assert (row.asd, row.assd, row.hd95, row.nsd) == (None,) * 4
    assert summarise([]).dice is None
