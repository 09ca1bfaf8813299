"""Methods are found by name, and users may add their own."""

from typing import get_args

import pytest

from tracoco.errors import UserError
from tracoco.methods import METHODS, MethodRow, method_class, method_row, register_method
from tracoco.methods.row import FAMILIES, Family
from tracoco.methods.supervised import Supervised

OWN = MethodRow(
    target="tracoco.methods.supervised:Supervised", idea="The same.", trained_by_unlabelled=()
)


@pytest.fixture(autouse=True)
def _methods_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "mine-2"):
        monkeypatch.setitem(METHODS, name, OWN)  # so that it is gone afterwards
        monkeypatch.delitem(METHODS, name)


def test_a_method_of_ones_own_is_found_and_may_be_registered_again() -> None:
    register_method("mine", OWN)
    register_method("mine-2", OWN)
    register_method("mine", MethodRow(target=OWN.target, idea="Another.", trained_by_unlabelled=()))
    assert method_row("mine").idea == "Another."
    assert method_class("mine") is Supervised
    assert method_row("mine").faithful is None


@pytest.mark.parametrize("name", ["", "Mine", "my method", "../mine", "-mine", "mine-"])
def test_a_name_that_no_folder_should_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a method"):
        register_method(name, OWN)


def test_methods_of_the_package_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="'tracoco' is one of the package's"):
        register_method("tracoco", OWN)
    assert method_row("tracoco") is not OWN


def test_an_unknown_method_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"'tracco' does not exist; did you mean 'tracoco'\?; one"):
        method_row("tracco")


def test_rows_are_in_order_of_year() -> None:
    years = [row.year or 0 for row in METHODS.values()]
    assert years == sorted(years)


def test_every_family_is_explained_and_every_method_of_the_package_has_one() -> None:
    assert list(FAMILIES) == list(get_args(Family))
    assert all(row.family in FAMILIES for row in METHODS.values())
