import io
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tracoco import console
from tracoco.text import printable


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


EVIL = "a\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\udcff"
SHOWN = r"a\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\udcff"


def test_control_characters_are_written_out_and_text_stays() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("größer\tals\nλ 漢字") == "größer\tals\nλ 漢字"


def test_lines_tables_and_progress_send_no_control_character_of_a_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.say(EVIL)
    table = Table("case [bold]", title=EVIL)
    table.add_row(EVIL)
    table.add_row("[red]x[/red]")
    console.print_table(table)
    console.progress_console().print(EVIL)
    out, err = capsys.readouterr()
    assert err.startswith(f"{SHOWN}\n")
    assert err.count(r"\x1b]0;owned") == 2
    assert out.count(r"\x1b]0;owned") == 2
    assert "[red]x[/red]" in out
    assert not set(out + err) & set("\x1b\x07\r\x9b\u202e\udcff")


def test_a_terminal_gets_the_escapes_of_its_table_and_of_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    text = io.StringIO()
    shown = console.PlainConsole(width=80)
    shown.file = text
    table = Table("case")
    table.add_row(EVIL)
    shown.print(table)
    assert "\x1b[1m" in text.getvalue()  # the header is bold
    assert "\x1b]0" not in text.getvalue()
    assert "\x1b[2J" not in text.getvalue()


def test_the_command_line_prints_no_control_character_of_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "scans\x1b]0;owned\x07"
    folder.mkdir()
    (folder / "a\x1b[2J.nii.gz").write_bytes(b"no scan")
    for words in (
        ("check", str(folder)),
        ("init", str(folder), "--out", str(tmp_path / "project")),
        ("predict", str(tmp_path / "\x1b[31mrun"), str(folder), str(tmp_path / "out")),
        ("train", "\x1b[31m", "--\x1b[31m"),
    ):
        result = subprocess.run(
            [sys.executable, "-m", "tracoco", *words], capture_output=True, check=False
        )
        assert result.returncode == 2
        assert rb"\x1b" in result.stdout + result.stderr
        assert b"\x1b" not in result.stdout + result.stderr
