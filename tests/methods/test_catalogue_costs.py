"""Costs are those that were measured, or none."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from benchmarks.method_costs import COSTS

from tracoco.methods import METHODS
from tracoco.methods import catalogue as facts
from tracoco.methods.catalogue import Costs, MethodCost, all_facts, cost_cells, read_costs

measured = pytest.mark.skipif(not COSTS.exists(), reason="nothing was measured yet")
TWO = MethodCost(2, 0, 2, 20.0, 4.0, 9.57, 8.56)
TEACHER = MethodCost(1, 1, 1, 4.0, 0.0, 2.0, 1.96)


@measured
def test_every_method_was_measured_and_nothing_else() -> None:
    found = read_costs()
    assert found is not None
    assert list(found.methods) == list(METHODS), "run `python -m benchmarks.method_costs`"
    assert found.methods["supervised"] == MethodCost(1, 0, 1, 2.0, 0.0, 1.0, 1.0)
    for cost in found.methods.values():
        assert cost.networks >= 1
        assert cost.passes >= 2
        assert cost.time > 0.5
        assert cost.memory > 0.5


def known(cost: dict[str, MethodCost]) -> Callable[[], Costs]:
    return lambda: Costs(cost, {}, "")


def row(name: str) -> dict[str, Any]:
    (found,) = (each for each in all_facts() if each["method"] == name)
    return found


def test_a_method_that_was_not_measured_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "read_costs", known({"tracoco": TWO, "ua-mt": TEACHER}))
    assert row("cps")["time"] is row("cps")["networks"] is row("cps")["passes"] is None
    assert list(cost_cells(row("cps")).values()) == ["not measured", "", "", "", ""]
    assert list(cost_cells(row("tracoco")).values()) == ["2", "2", "20 + 4", "9.6", "8.6"]
    assert list(cost_cells(row("ua-mt")).values()) == ["1 + 1", "1", "4", "2.0", "2.0"]


def test_without_a_file_there_are_no_costs_and_with_one_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracoco.methods.catalogue.resources.files", lambda _: tmp_path)
    assert read_costs() is None
    (tmp_path / "methods").mkdir()
    cost = MethodCost(2, 0, 2, 12, 4, 5.5, 6)
    values = {
        "setting": "small",
        "machine": {"cores": 2},
        "methods": {"cps": asdict(cost)},
    }
    (tmp_path / "methods" / "costs.json").write_text(json.dumps(values), encoding="utf-8")
    assert read_costs() == Costs({"cps": cost}, {"cores": 2}, "small")
