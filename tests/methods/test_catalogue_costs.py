"""Costs are those that were measured, or none."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from benchmarks.method_costs import COSTS

from tracoco.methods import METHODS, catalogue
from tracoco.methods.catalogue import Costs, MethodCost, MethodEntry, all_methods, read_costs

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


def entry(name: str) -> MethodEntry:
    (found,) = (each for each in all_methods() if each.name == name)
    return found


def test_a_method_that_was_not_measured_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "read_costs", known({"tracoco": TWO, "ua-mt": TEACHER}))
    values = entry("cps").to_json()
    assert values["time"] is values["networks"] is values["passes"] is None
    assert list(entry("cps").cost_cells.values()) == ["not measured", "", "", "", ""]
    assert list(entry("tracoco").cost_cells.values()) == ["2", "2", "20 + 4", "9.6", "8.6"]
    assert list(entry("ua-mt").cost_cells.values()) == ["1 + 1", "1", "4", "2.0", "2.0"]


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
