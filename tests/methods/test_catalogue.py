"""What is told of the methods agrees with the table and with the code."""

import re
from importlib import resources
from typing import get_args

import pytest

from tracoco.methods import METHODS, method_class
from tracoco.methods.catalogue import About, method_settings, read_about
from tracoco.methods.row import COMMON_RECIPE, RELEASED_RECIPE, Faithful
from tracoco.presets import has_released_recipe, released_recipe

SOURCE = re.compile(
    r"releas|publi|paper|original|ours|SSL4MIS|TraCoCo|UA-MT|FixMatch|Eq\. \(|those of `"
)
"""Words that say where a default is from."""
DATED = [name for name, row in METHODS.items() if row.year]


def told(name: str) -> About:
    about = read_about(name)
    assert about is not None
    return about


def test_every_method_has_a_file_and_every_file_a_method() -> None:
    folder = resources.files("tracoco") / "methods" / "about"
    names = {path.name.removesuffix(".yaml") for path in folder.iterdir()}
    assert {name for name in names if not name.startswith("__")} == set(METHODS)
    assert read_about("no-such-method") is None


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_one_of_four_labels_and_its_recipe_bears_it_out(name: str) -> None:
    row, about = METHODS[name], told(name)
    assert row.faithful in get_args(Faithful)
    assert about.formulas
    assert about.readings
    assert has_released_recipe(name) == (row.faithful in {RELEASED_RECIPE, COMMON_RECIPE})
    if row.faithful == RELEASED_RECIPE:
        assert released_recipe(name).made_for, "a data set of the field that it is reproduced for"


@pytest.mark.parametrize("name", ["duwm", "patchcl", "cross-ald", "bcp-caussl"])
def test_a_paper_that_was_not_read_is_said_so(name: str) -> None:
    assert "paper was not consulted" in METHODS[name].caution
    assert "was not consulted" in " ".join(told(name).readings)


@pytest.mark.parametrize("name", DATED)
def test_the_reference_has_the_venue_and_the_year_of_the_table(name: str) -> None:
    assert f". {METHODS[name].venue} {METHODS[name].year}." in told(name).reference


@pytest.mark.parametrize("name", METHODS)
def test_settings_that_formulas_and_readings_name_exist_and_lines_fit(name: str) -> None:
    about, known = told(name), set(method_class(name).Config.model_fields)
    for line in about.formulas:
        assert len(line) <= 96, line
        for word in re.findall(r"\b[a-z]{3,}(?:_[a-z]{3,})+\b", line):
            assert word in known, f"{word} in: {line}"
    for word in re.findall(r"`(\w+)(?:: [\w.-]+)?`", " ".join([*about.formulas, *about.readings])):
        assert word in known | set(METHODS), f"`{word}`"


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_says_what_it_is_and_it_or_its_group_where_its_default_is_from(
    name: str,
) -> None:
    config = method_class(name).Config
    settings = method_settings(config)
    assert {setting.name for setting in settings} == set(config.model_fields)
    for setting in settings:
        assert setting.about, f"{name}: method.{setting.name} has no docstring"
        words = setting.about + setting.group
        assert SOURCE.search(words), f"{name}: where is method.{setting.name} from? {words}"
