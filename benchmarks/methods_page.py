"""docs/reference/methods.md out of the table of methods, their files and their costs.

`python -m benchmarks.methods_page`
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.release_table import table, without_release
from tracoco.files import write_text
from tracoco.methods import METHODS
from tracoco.methods.catalogue import NOTATION, MethodEntry, Setting, method_details, read_costs

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reference" / "methods.md"
EXAMPLE = DOCS / "sure_labels.py"
"""What the guide shows."""
FRAME = Path(__file__).with_suffix(".md")
"""All of the page that is not made of facts."""

NOT_MEASURED = "Nothing has been measured yet; `python -m benchmarks.method_costs` does."


def main() -> None:
    """Write the page."""
    write_text(PAGE, page())


def page() -> str:
    """The page as Markdown."""
    rows = [method_details(name) for name in METHODS]
    return FRAME.read_text(encoding="utf-8").format(
        costs=_measured(),
        table="".join(f"| {' | '.join(_cells(row))} |\n" for row in rows),
        example=EXAMPLE.read_text(encoding="utf-8"),
        releases=table(),
        without="; ".join(f"`{name}` ({why})" for name, why in without_release().items()),
        letters="".join(f"| {letter} | {meaning} |\n" for letter, meaning in NOTATION),
        sections="".join(map(_section, rows)),
    )


def _measured() -> str:
    costs = read_costs()
    if costs is None:
        return NOT_MEASURED
    facts = "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in costs.machine.items())
    return f"Measured on the demo's phantoms. {costs.setting} The machine: {facts}."


def _cells(entry: MethodEntry) -> list[str]:
    name = f"[{entry.name}](#{entry.name})"
    origin = (entry.published, entry.row.family or "", entry.row.idea)
    recipes = ", ".join(entry.recipes)
    return [name, *origin, *entry.cost_cells.values(), recipes, entry.row.faithful or ""]


def _section(entry: MethodEntry) -> str:
    """All of one method."""
    row, about = entry.row, entry.about
    if about is None:
        raise ValueError(f"{entry.name} has no file in methods/about")
    caution = f"\nWarning: {row.caution}.\n" if row.caution else ""
    needs = f"\nNeeds {entry.needs}.\n" if entry.needs else ""
    formulas = "\n".join(about.formulas)
    left_out = f"\nNot written:\n\n{_bullets(about.not_written)}" if about.not_written else ""
    recipe = f"\nReleased recipe:\n\n{_bullets(entry.released_recipe)}"
    return (
        f"\n## {entry.name}\n\n{row.idea} *{about.reference}* **{row.faithful}**\n"
        f"{caution}{needs}\n```text\n{formulas}\n```\n\n"
        f"Readings:\n\n{_bullets(about.readings)}{left_out}"
        f"{recipe if entry.released_recipe else ''}{_settings(entry.settings or ())}"
    )


def _bullets(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _settings(settings: Sequence[Setting]) -> str:
    """A table for each class of settings, below what that says of all of them."""
    text = ""
    for group in reversed(list(dict.fromkeys(each.group for each in settings))):
        text += f"\n{group}\n\n| setting | default | meaning |\n|---|---|---|\n"
        for setting in settings:
            if setting.group == group:
                default = "not given" if setting.default is None else f"`{setting.default}`"
                text += f"| `{setting.name}` | {default} | {_escaped(setting.about)} |\n"
    return text


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
