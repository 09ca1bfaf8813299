"""docs/methods.md out of the table of methods, their files and their costs.

`python -m benchmarks.methods_page`
"""

from pathlib import Path
from typing import Any

from tracoco.files import write_text
from tracoco.methods import METHODS
from tracoco.methods.catalogue import NOTATION, cost_cells, method_details, published, read_costs

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "methods.md"
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
        letters="".join(f"| {letter} | {meaning} |\n" for letter, meaning in NOTATION),
        sections="".join(map(_section, rows)),
    )


def _measured() -> str:
    costs = read_costs()
    if costs is None:
        return NOT_MEASURED
    facts = "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in costs.machine.items())
    return f"Measured on the demo's phantoms. {costs.setting} The machine: {facts}."


def _cells(row: dict[str, Any]) -> list[str]:
    costs = cost_cells(row)
    name = f"[{row['method']}](#{row['method']})"
    return [name, published(row), row["idea"], *costs.values(), row["faithful"]]


def _section(row: dict[str, Any]) -> str:
    """All of one method."""
    caution = f"\nMind: {row['caution']}.\n" if row["caution"] else ""
    formulas = "\n".join(row["formulas"])
    left_out = f"\nNot written:\n\n{_bullets(row['not_written'])}" if row["not_written"] else ""
    return (
        f"\n## {row['method']}\n\n{row['idea']} *{row['reference']}* **{row['faithful']}**\n"
        f"{caution}\n```text\n{formulas}\n```\n\nReadings:\n\n{_bullets(row['readings'])}{left_out}"
        f"{_settings(row)}"
    )


def _bullets(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _settings(row: dict[str, Any]) -> str:
    """A table for each class of settings, below what that says of all of them."""
    text = ""
    for group in reversed(list(dict.fromkeys(each["group"] for each in row["settings"]))):
        text += f"\n{group}\n\n| setting | default | meaning |\n|---|---|---|\n"
        for setting in row["settings"]:
            if setting["group"] == group:
                default = setting["default"]
                default = "not given" if default is None else f"`{default}`"
                text += f"| `{setting['name']}` | {default} | {_escaped(setting['about'])} |\n"
    return text


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
