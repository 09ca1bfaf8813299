"""docs/equations.md, the docstrings and the tests tell the same story."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "equations.md").read_text(encoding="utf-8").splitlines()
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
