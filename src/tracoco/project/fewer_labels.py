"""Fewer labels than there are: how much a method needs is found out by hiding some."""

from dataclasses import replace
from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.splits import Splits


def with_fewer_labels(splits: Splits, count: int | None, source: Path) -> Splits:
    """Keep the first `count` labelled cases and take the others as unlabelled; all if None.

    Args:
        splits: its validation and test cases stay as they are.
        count: how many labelled cases are left to learn from.
        source: the file that the splits come from, for the one who has to change something.
    """
    if count is None:
        return splits
    if count > len(splits.labelled):
        raise UserError(
            f"data.labelled is {count}, but {source} has {len(splits.labelled)} labelled cases; "
            "ask for fewer, or leave it out to use all"
        )
    kept, hidden = splits.labelled[:count], splits.labelled[count:]
    return replace(splits, labelled=kept, unlabelled=(*splits.unlabelled, *hidden))
