"""What `tracoco methods` and docs/methods.md tell of a method, as plain values."""

from dataclasses import asdict, fields
from typing import Any

from tracoco.methods import METHODS, method_class, method_row
from tracoco.methods.costs import MethodCost, read_costs

COSTS = tuple(field.name for field in fields(MethodCost))
DETAILS = ("reference", "formulas", "readings", "not_written")


def all_facts() -> list[dict[str, Any]]:
    """A row for each method, without importing any; costs are None where none were measured."""
    costs = read_costs()
    measured = costs.methods if costs else {}
    return [_facts(name, measured.get(name)) for name in METHODS]


def method_details(name: str) -> dict[str, Any]:
    """The row of one method with its formulas, readings and settings; imports the method."""
    from tracoco.methods.about import read_about  # noqa: PLC0415 - the list needs none of this
    from tracoco.methods.settings import method_settings  # noqa: PLC0415 - imports torch

    method_row(name)
    (facts,) = (row for row in all_facts() if row["method"] == name)
    about = read_about(name)
    settings = method_settings(method_class(name).Config)
    return {
        **facts,
        **{key: getattr(about, key) if about else None for key in DETAILS},
        "settings": [asdict(setting) for setting in settings],
    }


def _facts(name: str, cost: MethodCost | None) -> dict[str, Any]:
    row = METHODS[name]
    return {
        "method": name,
        "year": row.year,
        "venue": row.venue,
        "idea": row.idea,
        "faithful": row.faithful,
        "caution": row.caution,
        "teaches": list(row.taught),
        **{key: getattr(cost, key) if cost else None for key in COSTS},
    }


def published(row: dict[str, Any]) -> str:
    """Venue and year, as far as there are any."""
    return f"{row['venue']} {row['year'] or ''}".strip()


def cost_cells(row: dict[str, Any]) -> dict[str, str]:
    """The costs of a row as short texts; all are empty but one where nothing was measured."""
    if row["time"] is None:
        return {"networks": "not measured"} | dict.fromkeys(
            ("decoders", "passes", "time", "memory"), ""
        )
    averaged, without = row["averaged"], row["passes_without_gradient"]
    return {
        "networks": f"{row['networks']} + {averaged}" if averaged else f"{row['networks']}",
        "decoders": f"{row['decoders']}",
        "passes": f"{row['passes']:g} + {without:g}" if without else f"{row['passes']:g}",
        "time": f"{row['time']:.1f}",
        "memory": f"{row['memory']:.1f}",
    }
