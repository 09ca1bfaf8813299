"""Parts of the work of one command, so that several machines or jobs share it: `--shard 2/4`."""

import re
from collections.abc import Sequence
from typing import TypeVar

from tracoco.errors import UserError

Shard = tuple[int, int]
"""(k, n): the k-th of n parts, counted from 1."""

Item = TypeVar("Item")


def shard_of(items: Sequence[Item], shard: Shard) -> list[Item]:
    """One part of the items; parts differ in length by one at most."""
    part, parts = shard
    _check(shard, f"{part}/{parts}")
    return list(items[part - 1 :: parts])


def parse_shard(text: str) -> Shard:
    """`2/4`: the second of four parts."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = (int(number) for number in match.groups()) if match else (0, 0)
    _check((part, parts), text)
    return part, parts


def _check(shard: Shard, text: str) -> None:
    if not 1 <= shard[0] <= shard[1]:
        raise UserError(f"--shard {text} is no part; give 1/4, 2/4, 3/4 or 4/4 to four machines")
