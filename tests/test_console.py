import io
import time

import pytest
from rich.console import Console

from tracoco import console


def test_a_terminal_sees_a_bar() -> None:
    text = io.StringIO()
    with console.counted(
        "preparing", 3, Console(file=text, force_terminal=True, width=100)
    ) as on_item:
        for name in "abc":
            on_item(name)
    assert "preparing" in text.getvalue()
    assert "3/3" in text.getvalue()


def test_elsewhere_quick_work_is_silent_and_slow_work_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 3.0, 4.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with console.counted(
        "preparing", 4, Console(file=io.StringIO(), force_terminal=False)
    ) as on_item:
        for name in "abc":
            on_item(name)
    # Two of four items took three seconds, so two more will take three.
    assert capsys.readouterr().err == "preparing: 2 of 4 (b), about 3 s left\n"


def test_without_a_console_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with console.counted("preparing", 1, None) as on_item:
        on_item("a")
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
