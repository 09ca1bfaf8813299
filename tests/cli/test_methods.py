"""`tracoco methods` and `tracoco methods NAME`, for a person and for a program."""

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

import tracoco as tc
from tracoco.cli import main
from tracoco.methods import FAMILIES, METHODS

KEYS = [
    *("method", "family", "year", "venue", "idea", "faithful", "caution", "teaches"),
    *("dimensions", "needs", "recipes"),
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
        assert lines[place + 1] == f"  {row.idea}"
        assert lines[place + 2].startswith(f"  {row.faithful}; recipes: common")
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


def test_the_list_is_grouped_by_family_and_every_method_has_one(tracoco: Any) -> None:
    _, out, _ = tracoco()
    family, found = "", {}
    for line in out.splitlines():
        title, colon, about = line.partition(": ")
        if colon and FAMILIES.get(title.lower()) == about:
            family = title.lower()
        elif line.split("  ")[0] in METHODS:
            found[line.split("  ")[0]] = family
    assert found == {name: row.family for name, row in METHODS.items()}
    assert list(dict.fromkeys(found.values())) == [
        family for family in FAMILIES if family in found.values()
    ]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--family", "mixing"), ["ict", "bcp", "bcp-caussl"]),
        (("--since", "2024"), ["cac-co", "tracoco", "tracoco-as-released"]),
        (("--since", "2023", "--max-cost", "2.0"), ["ac-mt", "bcp"]),
        (("--dimensions", "2", "--family", "baseline"), ["supervised"]),
    ],
)
def test_filters_leave_out_what_is_not_asked_for(
    tracoco: Any, words: tuple[str, ...], names: list[str]
) -> None:
    rows = json.loads(tracoco(*words, "--json")[1])["rows"]
    found = [row["method"] for row in rows]
    assert [name for name in found if name in names] == names
    assert all(row["time"] <= 2.0 for row in rows if "--max-cost" in words)
    assert len(found) < 12


def test_a_method_for_volumes_alone_is_not_listed_for_slices(
    tracoco: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "cps", replace(METHODS["cps"], dimensions=(3,)))
    for dimensions, listed in (("2", False), ("3", True)):
        rows = json.loads(tracoco("--dimensions", dimensions, "--json")[1])["rows"]
        assert ("cps" in [row["method"] for row in rows]) == listed
    assert "  for 3D crops alone\n" in tracoco("--family", "co-training")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--family", "mixin"), "family 'mixin' does not exist; did you mean 'mixing'?"),
        (("--dimensions", "4"), "dimensions is 4; use 2 or 3"),
        (("cps", "--since", "2020"), "a method and filters are given"),
    ],
)
def test_wrong_filters_are_one_line(tracoco: Any, words: tuple[str, ...], message: str) -> None:
    code, out, err = tracoco(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_filters_that_leave_nothing_say_so(tracoco: Any) -> None:
    assert tracoco("--since", "2999")[1] == "no method is like that; leave out a filter\n"


def test_python_lists_what_the_command_does(tracoco: Any) -> None:
    found = tc.list_methods(family="contrast", max_cost=12.0)
    told = json.loads(tracoco("--family", "contrast", "--max-cost", "12", "--json")[1])["rows"]
    assert [entry.to_json() for entry in found.entries] == told
    assert found.problems == ()


def test_an_unknown_method_is_refused_in_one_line(tracoco: Any) -> None:
    code, out, err = tracoco("ua_mt")
    assert (code, out) == (2, "")
    assert err.startswith("tracoco methods: method 'ua_mt' does not exist; did you mean 'ua-mt'?")
    assert err.count("\n") == 1
