"""`tracoco methods` and `tracoco methods NAME`, for a person and for a program."""

import json
import sys
from typing import Any

import pytest

from tracoco.cli import main
from tracoco.methods import METHODS

KEYS = [
    *("method", "year", "venue", "idea", "faithful", "caution", "teaches"),
    *("networks", "averaged", "decoders", "passes", "passes_without_gradient", "time", "memory"),
]
LAST = ("released_recipe", "settings")


@pytest.fixture
def tracoco(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tracoco", "methods", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_the_list_has_every_method_with_its_publication_and_how_near_we_are(tracoco: Any) -> None:
    _, out, _ = tracoco()
    lines = out.splitlines()
    for name, row in METHODS.items():
        (place,) = (place for place, line in enumerate(lines) if line.startswith(f"{name} "))
        assert f"{row.venue} {row.year or ''}".strip() in lines[place]
        assert lines[place + 1 : place + 3] == [f"  {row.idea}", f"  {row.faithful}"]
    assert f"  warning: {METHODS['duwm'].caution}" in lines


def test_no_line_is_wider_than_a_small_terminal(
    tracoco: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = tracoco()
    rows = [line for line in out.splitlines() if "MICCAI" in line]
    assert rows
    assert all(len(line) <= 80 + len("\x1b[1m\x1b[0m") for line in rows)


def test_as_json_the_list_is_one_object_with_lower_case_keys(tracoco: Any) -> None:
    code, out, err = tracoco("--json")
    rows = json.loads(out)["rows"]
    assert (code, err) == (0, "")
    assert [row["method"] for row in rows] == list(METHODS)
    assert all(list(row) == KEYS for row in rows)
    assert rows[3]["faithful"] == "released recipe reproduced"
    assert rows[3]["teaches"] == ["student"]


def test_one_method_is_told_with_formulas_readings_and_settings(tracoco: Any) -> None:
    _, out, _ = tracoco("ua-mt")
    assert "Yu et al.: Uncertainty-aware" in out
    assert "  τ = first_threshold + (1 - first_threshold) · R(t, N)\n" in out
    assert "  - Unlabelled crops alone" in out
    own = out.index("  first_threshold = 0.75\n    The teacher counts where its entropy")
    shared = out.index("  rampup_steps = not given\n    Steps until the weight")
    assert own < shared
    assert "Not written" not in out
    assert "Released recipe, chosen by --recipe released\n  - from UA-MT: code/train_LA" in out
    assert "Released recipe" not in tracoco("duwm")[1]
    assert "Not written" in (told := tracoco("ac-mt")[1])
    assert "  - The two variants that look for errors" in told


def test_as_json_one_method_is_one_row_with_its_details(tracoco: Any) -> None:
    code, out, err = tracoco("ua-mt", "--json")
    (row,) = json.loads(out)["rows"]
    assert (code, err) == (0, "")
    assert list(row) == [*KEYS, "reference", "formulas", "readings", "not_written", *LAST]
    setting = next(each for each in row["settings"] if each["name"] == "passes")
    assert setting["default"] == 8
    assert setting["about"].startswith("Passes of the teacher")
    assert setting["group"] == "Settings of `ua-mt`, by default those of the authors' release."


def test_settings_of_every_method_can_be_written_as_json(tracoco: Any) -> None:
    for name in METHODS:
        (row,) = json.loads(tracoco(name, "--json")[1])["rows"]
        assert row["method"] == name


def test_an_unknown_method_is_refused_in_one_line(tracoco: Any) -> None:
    code, out, err = tracoco("ua_mt")
    assert (code, out) == (2, "")
    assert err.startswith("tracoco methods: method 'ua_mt' does not exist; did you mean 'ua-mt'?")
    assert err.count("\n") == 1
