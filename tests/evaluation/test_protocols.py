"""Protocols by name, and by their parts."""

import pytest

from tracoco.errors import UserError
from tracoco.evaluation.scores import Protocol, chosen_protocol


def test_the_papers_count_voxels_and_give_empty_masks_zero() -> None:
    assert chosen_protocol("paper") == Protocol(units="voxel", empty="zero")
    assert chosen_protocol("paper", cct=True) == Protocol(units="voxel", empty="zero", cct=True)


def test_without_a_name_the_parts_decide() -> None:
    assert chosen_protocol() == Protocol()
    assert chosen_protocol(units="voxel") == Protocol(units="voxel")
    assert chosen_protocol(empty="zero", cct=True) == Protocol(empty="zero", cct=True)


def test_saying_the_same_twice_is_no_contradiction() -> None:
    assert chosen_protocol("paper", "voxel", "zero") == chosen_protocol("paper")


def test_a_part_that_contradicts_the_name_is_an_error() -> None:
    with pytest.raises(UserError, match="means --units voxel, but --units mm is given"):
        chosen_protocol("paper", units="mm")
    with pytest.raises(UserError, match="means --empty zero, but --empty missed is given"):
        chosen_protocol("paper", empty="missed")


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UserError, match="did you mean 'paper'"):
        chosen_protocol("papers")
