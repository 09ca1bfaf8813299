"""docs/explanation/paper.md, the package and the tests tell the same story."""

import importlib
import re
from inspect import isfunction, signature
from pathlib import Path

import pytest

from tracoco.config import Config
from tracoco.methods import METHODS, method_class
from tracoco.methods import tracoco_as_released as as_released
from tracoco.presets import preset_names
from tracoco.studies.paper.contents import list_paper

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "explanation" / "paper.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| Eq\. \(\d+\) \|", line)
]


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def docstring(dotted: str) -> str:
    parts = dotted.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            found = getattr(found, part)
        return found.__doc__ or ""
    raise AssertionError(f"{dotted} cannot be imported")


def test_every_equation_is_there_once() -> None:
    assert [row[0] for row in ROWS] == [f"Eq. ({number})" for number in range(1, 11)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_function_says_which_equation_it_is_and_its_test_exists(row: list[str]) -> None:
    equation, _, functions, test = row
    for function in named(functions):
        number = equation.removeprefix("Eq. ")
        assert number in docstring(function), f"{function} does not name {equation}"
    text = (ROOT / named(test)[0]).read_text(encoding="utf-8")
    last_names = [function.split(".")[-1] for function in named(functions)]
    assert any(name in text for name in (*last_names, "Mix", "TraCoCo")), (
        f"{test} tests none of them"
    )


def test_every_equation_named_in_the_package_is_in_the_table() -> None:
    known = {row[0] for row in ROWS}
    for path in (ROOT / "src").rglob("*.py"):
        for found in re.findall(r"Eqs?\. \(\d+\)", path.read_text(encoding="utf-8")):
            assert found in known, f"{path}: {found}"


def test_every_table_and_figure_has_its_command_on_the_page() -> None:
    shown = re.findall(r"\| `tracoco paper ([\w-]+)` \|", PAGE)
    assert sorted(shown) == sorted(entry.name for entry in list_paper())


def test_every_setting_on_the_page_exists() -> None:
    methods = {name: set(method_class(name).Config.model_fields) for name in METHODS}
    known = set.union(*methods.values()) | {"name"}
    found = re.findall(r"`(method|data|inference|network)\.(\w+)", PAGE)
    assert len(found) > 15
    for group, name in found:
        fields = known if group == "method" else type(getattr(Config(), group)).model_fields
        assert name in fields, f"{group}.{name}"


def test_every_formula_of_the_release_is_on_the_page() -> None:
    for name in vars(as_released):
        function = getattr(as_released, name)
        own = getattr(function, "__module__", "") == as_released.__name__
        is_loss = (
            own
            and isfunction(function)
            and {"valid", "overlap"} & {*signature(function).parameters}
        )
        if is_loss and not name.startswith("_") and name != "released_dice":
            assert f"`{name}`" in PAGE, name


def test_every_preset_on_the_page_exists_and_the_other_way_round() -> None:
    counts = re.findall(r"`(la|pancreas|brats19|acdc)-(\d+)`((?:, `-\d+`)*)", PAGE)
    named_presets = {f"{data}-{first}" for data, first, _ in counts}
    named_presets |= {
        f"{data}-{more}" for data, _, others in counts for more in re.findall(r"-(\d+)", others)
    }
    shipped = {name for name in preset_names() if re.fullmatch(r"[a-z0-9]+-\d+", name)}
    assert named_presets == shipped
