"""Commands that the documents show are commands that exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from scripts.site.build import REFERENCE

from tracoco.cli import app

ROOT = Path(__file__).parents[1]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
SHOWN = sorted(
    {
        line.split("#")[0].strip()
        for path in TEXTS
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"    tracoco [\w-]+(?!\S)", line)  # and no message, as `tracoco train: ...`
    }
)
GROUP = typer.main.get_command(app)
EXAMPLES = sorted(
    found.strip()
    for command in GROUP.commands.values()  # type: ignore[attr-defined]  # a group of commands
    for found in re.findall(r"Example: (tracoco .*)", command.help or "")
)


@pytest.mark.parametrize("line", [*SHOWN, *EXAMPLES])
def test_a_shown_command_is_understood(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    command = GROUP.commands[name]  # type: ignore[attr-defined]  # a group of commands
    with command.make_context(name, arguments) as context:
        assert context.info_name == name
        assert not context.args


def test_something_is_shown() -> None:
    assert len(SHOWN) >= 5
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        there = (path.parent / target).resolve()
        made = there.parent.name == "reference" and there.name in REFERENCE
        assert there.exists() or made, target


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in TEXTS:
        for target in re.findall(
            r"^    make ([\w-]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
