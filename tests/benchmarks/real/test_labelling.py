"""The simulation of labelling, on small scans, and what is said of its results."""

from pathlib import Path

import pytest
from benchmarks.real.labelling import (
    KIND,
    STRATEGIES,
    RoundResult,
    Simulation,
    Strategy,
    keep,
    read_results,
    section,
)
from samples import make_project

from tracoco.project.folder import Project

SETTINGS = ("data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """6 labelled cases, and 2 for the test."""
    root = tmp_path_factory.mktemp("simulated")
    return make_project(root, labelled=8, unlabelled=0, validation=0, test=2)


def simulation(base: Project, out: Path) -> Simulation:
    return Simulation(
        base,
        preset=None,
        seed=1,
        out=out,
        start=2,
        rounds=1,
        steps=3,
        round_steps=2,
        settings=SETTINGS,
    )


def test_both_ways_start_alike_and_end_with_as_many_labels(base: Project, tmp_path: Path) -> None:
    found = {name: simulation(base, tmp_path).results(name) for name in STRATEGIES}
    assert found["next"][0].dice == found["random"][0].dice  # the same first run
    whole = base.load_splits()
    for name, results in found.items():
        assert [(each.round, each.labelled, each.steps) for each in results] == [
            (0, 2, 3),
            (1, 4, 2),
        ]
        project = Project(tmp_path / f"{name}-seed1")
        splits = project.load_splits()
        assert set(results[1].added) == set(splits.labelled[2:])
        assert set(splits.labelled) <= set(whole.labelled)
        assert set(results[1].dice) == set(whole.test) == set(splits.test)
        assert set(splits.hidden) == set(whole.labelled) - set(splits.labelled)
    again = {name: simulation(base, tmp_path).results(name) for name in STRATEGIES}
    assert again == found  # nothing is done twice


def result(strategy: Strategy, seed: int, number: int, *dice: float) -> RoundResult:
    cases: dict[str, float | None] = {f"case{index}": value for index, value in enumerate(dice)}
    return RoundResult(strategy, seed, number, 2 + 2 * number, 5, (), cases)


def test_results_are_kept_by_seed_and_way(tmp_path: Path) -> None:
    first = [result("next", 0, 0, 50, 60)]
    keep(tmp_path, "la", first)
    path = keep(tmp_path, "la", [result("random", 0, 0, 50, 60)])
    assert path == tmp_path / KIND / "la.json"
    keep(tmp_path, "la", [*first, result("next", 0, 1, 70, 80)])
    assert [(r.strategy, r.round) for r in read_results(tmp_path, "la")] == [
        ("next", 0),
        ("next", 1),
        ("random", 0),
    ]
    assert read_results(tmp_path, "hippocampus") == []


def test_the_section_compares_rounds_that_both_have(tmp_path: Path) -> None:
    assert section(tmp_path) == ""
    keep(tmp_path, "la", [result("next", 0, 0, 50, 60), result("next", 0, 1, 70, 90)])
    assert section(tmp_path) == ""  # nothing to compare with
    keep(tmp_path, "la", [result("random", 0, 0, 50, 60), result("random", 0, 1, 65, 75)])
    keep(tmp_path, "la", [result("next", 1, 0, 1, 1)])  # a seed that has only begun
    text = section(tmp_path)
    assert "### la, 1 seed" in text
    assert "| 0 | 2 | 55.0 [50.0, 60.0] | 55.0 [50.0, 60.0] | the same run |" in text
    assert "| 1 | 4 | 80.0 [70.0, 90.0] | 70.0 [65.0, 75.0] | +10.0 [+5.0, +15.0] |" in text
