"""Hiding labels: which cases change their part."""

from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.splits import Splits, with_fewer_labels

SPLITS = Splits(("c", "a", "b"), ("u2", "u1"), ("v",), ("t",))
FILE = Path("heart/splits.json")


def test_the_first_keep_their_labels_and_the_others_come_after_the_unlabelled() -> None:
    assert with_fewer_labels(SPLITS, 1, FILE) == Splits(
        ("c",), ("u2", "u1", "a", "b"), ("v",), ("t",)
    )


@pytest.mark.parametrize("count", [None, 3])
def test_all_labels_may_stay(count: int | None) -> None:
    assert with_fewer_labels(SPLITS, count, FILE) == SPLITS


def test_more_than_there_are_is_an_error_with_both_numbers() -> None:
    with pytest.raises(UserError, match=r"data\.labelled is 4, but heart/splits\.json has 3"):
        with_fewer_labels(SPLITS, 4, FILE)
