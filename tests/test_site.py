"""The documentation site: its reference is whole, its links are checked, its pages have a place."""

import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel
from scripts.site import build, reference
from scripts.site.links import site_problems

import tracoco as tc
from tracoco.config import Config
from tracoco.project.plan import Plan
from tracoco.scans.reader import SUFFIXES

ROOT = Path(__file__).parents[1]
PAGES = reference.pages()


def test_every_command_and_option_is_in_the_reference() -> None:
    sections = PAGES["cli.md"].split("\n## ")[1:]
    by_name = {text.partition("\n")[0]: text for text in sections}
    assert list(by_name) == list(reference.commands())
    for name, command in reference.commands().items():
        for option in command.params:
            if option.name != "help" and not getattr(option, "hidden", False):
                argument = option.metavar or option.name.upper()
                word = option.opts[0] if option.param_type_name == "option" else argument
                assert f"`{word}".replace("|", "\\|") in by_name[name], (name, option.name)
                assert getattr(option, "help", None), (name, option.name)


def test_every_public_name_and_its_arguments_are_in_the_reference() -> None:
    text = PAGES["python.md"]
    for name in [name for name in tc.__all__ if not name.startswith("__")]:
        assert f"### {name}\n" in text or f"- `tc.{name}`: " in text, name
    for name in tc.losses.__all__:
        assert f"### losses.{name}\n" in text, name
    parameters = inspect.signature(tc.train).parameters
    part = text.split("### train\n")[1].split("\n### ")[0]
    assert all(f"- `{name}`: " in part for name in parameters)
    assert " at 0x" not in text


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if name == "method":
            found.append("method.name")
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            found += keys(inner, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


def test_every_setting_is_in_the_reference_with_its_meaning() -> None:
    rows = {key: about for key, _, about in reference.setting_rows(Config)}
    assert list(rows) == [f"`{key}`" for key in keys(Config)]
    assert not [key for key, about in rows.items() if not about]
    assert "`training.steps`" in rows
    for name in Plan.model_fields:
        assert f"| `{name}` |" in PAGES["settings.md"]


def test_every_format_and_file_is_in_the_reference() -> None:
    text = PAGES["file-formats.md"]
    assert all(suffix in text for suffix in SUFFIXES)
    assert all(f"`{name}`" in text for name in ("plan.yaml", "log.jsonl", "last.pt, best.pt"))


def test_a_docstring_becomes_markdown() -> None:
    def add(left: int, right: int) -> int:
        """Add two numbers.

        Args:
            left: the first,
                which may be 0.
            right: the second.
        """
        return left + right

    expected = (
        "Add two numbers.\n\n**Arguments**\n\n- `left`: the first,\n  which may be 0.\n"
        "- `right`: the second."
    )
    assert reference.docstring(add) == expected


def test_every_page_has_a_heading_and_a_section() -> None:
    for source, place in build.sources().items():
        path = ROOT / source
        if place.rpartition("/")[2] not in PAGES:
            assert path.read_text(encoding="utf-8").startswith("# "), source
        assert build.section_of(place) in build.SECTIONS
    assert build.section_of("getting-started.md") == "Getting started"
    assert build.section_of("a-page-without-a-folder.md") == "How-to"


def test_links_are_moved_to_where_the_site_has_their_pages() -> None:
    found = build.sources()
    text = "[a](../docs/explanation/results.md#x) [b](https://example.org) [c](images/flow.svg)"
    moved = build.with_site_links(text, "docs/index.md", "index.md", found)
    assert moved == ("[a](explanation/results.md#x) [b](https://example.org) [c](images/flow.svg)")
    moved = build.with_site_links("[a](docs/index.md)", "CHANGELOG.md", "project/x.md", found)
    assert moved == "[a](../index.md)"
    with pytest.raises(SystemExit, match="docs/none"):
        build.with_site_links("[a](none.md)", "docs/index.md", "index.md", found)


def test_broken_links_and_files_from_elsewhere_are_found(tmp_path: Path) -> None:
    page = (
        '<a href="b.html">1</a><a href="b.html#here">2</a><a href="b.html#gone">3</a>'
        '<a href="c.html">4</a><a href="https://example.org/x">5</a><img src="none.png">'
        '<script src="https://example.org/x.js"></script>'
        '<link rel="stylesheet" href="//fonts.example.org/x.css"><link rel="canonical" href="x">'
    )
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>', encoding="utf-8")
    assert list(site_problems(tmp_path)) == [
        "a.html: none.png is missing",
        "a.html: loads https://example.org/x.js",
        "a.html: loads //fonts.example.org/x.css",
        "a.html: b.html#gone has no such anchor",
        "a.html: c.html is missing",
    ]
