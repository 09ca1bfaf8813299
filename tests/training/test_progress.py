import io

import pytest
from rich.console import Console
from samples import step_record

from tracoco.runs.log import StepRecord
from tracoco.training.logger import SilentDisplay, describe, shown_progress


def record(step: int, **more: float) -> StepRecord:
    return step_record(step, terms={"crc": 0.25}, **more)


def test_a_terminal_sees_terms_speed_and_time_left() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=160)
    with shown_progress("tracoco", 0, 10, console) as display:
        display.show(record(4))
        display.say("[a line]")
    shown = text.getvalue()
    assert "crc 0.250" in shown
    assert "steps/s" in shown
    assert "5/10" in shown
    assert "[a line]" in shown


def test_elsewhere_there_are_plain_lines_with_the_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with shown_progress("tracoco", 0, 100, console) as display:
        for step in range(100):
            display.show(record(step))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("tracoco: 1 of 100 steps, ")
    assert lines[-1].startswith("tracoco: 100 of 100 steps, ")
    assert "0:00:00 left" in lines[-1]
    assert len(lines) == 2


def test_without_a_console_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress("tracoco", 0, 1, None) as display:
        assert isinstance(display, SilentDisplay)
        display.show(record(0))
        display.say("nothing")
    assert capsys.readouterr().err == ""


def test_validation_is_described_in_percent() -> None:
    assert describe(record(0, validation_dice=0.5)) == "crc 0.250  validation Dice 50.0"


def test_a_dice_of_test_cases_is_called_so_and_shown_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert describe(record(0, test_dice=0.5)) == ("crc 0.250  test Dice 50.0, which chooses best")
    with shown_progress("tracoco", 0, 100, Console(file=io.StringIO())) as display:
        display.show(record(0))
        display.show(record(1, test_dice=0.5))
    assert "test Dice 50.0" in capsys.readouterr().err
