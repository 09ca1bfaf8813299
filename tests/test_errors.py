import pytest

from tracoco.errors import UserError, collected


def test_users_errors_are_noted_and_the_work_goes_on() -> None:
    problems: list[str] = []
    for name in ("a", "b"):
        with collected(problems):
            raise UserError(f"{name} is broken")
    assert problems == ["a is broken", "b is broken"]


def test_our_own_errors_are_not_hidden() -> None:
    with pytest.raises(ValueError, match="a bug"), collected([]):
        raise ValueError("a bug")
