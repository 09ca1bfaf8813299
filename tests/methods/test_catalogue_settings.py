"""Settings are told by the docstrings below their fields."""

from pydantic import Field

from tracoco.methods.catalogue import method_settings
from tracoco.settings import Settings


class Shared(Settings):
    """What two methods
    share."""

    weight: float = Field(default=0.5, ge=0)
    """How much, as
    released."""
    silent: bool = True
    steps: int | None = None
    """How long."""


class Own(Shared):
    """Settings of one."""

    extra: list[int] = Field(default_factory=lambda: [1, 2])
    """One more."""
    weight: float = Field(default=2.0, ge=0)
    """Twice as much."""

    @property
    def doubled(self) -> float:
        """No setting."""
        return 2 * self.weight


def test_shared_settings_come_first_and_an_override_is_told_where_it_stands() -> None:
    found = method_settings(Own)
    assert [setting.name for setting in found] == ["silent", "steps", "extra", "weight"]
    assert [setting.default for setting in found] == [True, None, [1, 2], 2.0]
    assert [setting.about for setting in found] == ["", "How long.", "One more.", "Twice as much."]
    assert [setting.group for setting in found] == ["What two methods share."] * 2 + [
        "Settings of one."
    ] * 2


def test_what_is_not_overridden_is_told_as_it_stands() -> None:
    weight, silent, steps = method_settings(Shared)
    assert (weight.about, weight.default) == ("How much, as released.", 0.5)
    assert (silent.about, steps.about) == ("", "How long.")
