"""How long runs will take is said before, shared runs count once, and grids run to their end."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from benchmarks.real import more_seeds, plan_of_runs
from benchmarks.real import run as running
from benchmarks.real.collect import (
    collect,
    committed_file,
    read_committed,
    working_results,
    write_committed,
)
from benchmarks.real.more_seeds import best_rows, choose, with_seeds
from benchmarks.real.plan_of_runs import pace, paces, plan_grids, plan_table, runs_of
from benchmarks.real.rows import read_grids
from samples import make_project
from small_grid import RESULT, TEXT

from tracoco.errors import UserError
from tracoco.methods.catalogue import read_costs
from tracoco.runs.build import choose_device, machine_name
from tracoco.studies.benchmark.grid import grid_runs, read_grid


@pytest.fixture
def grids(tmp_path: Path) -> list[Path]:
    """Two grids that share the supervised run, and the project of both."""
    make_project(tmp_path / "out", labelled=5, unlabelled=2, test=2).root.rename(tmp_path / "balls")
    (tmp_path / "first.yaml").write_text(TEXT.replace("STEPS", "30"))
    other = TEXT.replace("STEPS", "30").replace("  cps: {}", "  baseline: {method: supervised}")
    (tmp_path / "second.yaml").write_text(other.replace("  supervised: {}\n", ""))
    return [tmp_path / "first.yaml", tmp_path / "second.yaml"]


def test_the_pace_is_measured_or_by_the_cost_of_the_method() -> None:
    slow = replace(RESULT, seconds=70.0, steps=7, machine="here")
    known = paces([replace(RESULT, machine="here"), slow, slow, RESULT, RESULT, RESULT], "here")
    assert known == {("balls", "supervised"): 10.0}, "times of other machines say nothing"
    assert pace("balls", "supervised", known) == (10.0, "measured")
    costs = read_costs()
    assert costs is not None
    wanted = 10 * costs.methods["cps"].time
    assert pace("balls", "cps", known) == (wanted, "by the method's cost")
    assert pace("other", "cps", known) is None


def test_a_run_that_two_grids_ask_for_counts_once(grids: list[Path], tmp_path: Path) -> None:
    here = machine_name(choose_device("auto"))
    known = {"x": replace(RESULT, seconds=60.0, steps=30, machine=here)}  # 2 seconds per step
    first, second = plan_grids(grids, tmp_path, known)
    assert (first.runs, first.done, first.shared) == (2, 0, 0)
    assert (second.runs, second.done, second.shared) == (1, 0, 1)
    assert second.minutes == 0
    costs = read_costs()
    assert costs is not None
    wanted = 60 * (1 + costs.methods["cps"].time) + 2 * plan_of_runs.BESIDE
    assert first.minutes == pytest.approx(wanted / 60)
    ((_, folder),) = runs_of(grids[1], tmp_path)
    done = plan_grids(grids, tmp_path, {folder.name: known["x"]})
    assert [plan.done for plan in done] == [1, 1]
    anew = plan_grids(grids, tmp_path, {}, known.values())
    assert [plan.done for plan in anew] == [0, 0]
    assert anew[0].minutes == first.minutes
    assert "hours with 2 runs at a time" in str(plan_table([first, second], 2).title)


def test_without_any_result_a_step_is_timed(grids: list[Path], tmp_path: Path) -> None:
    (first, _) = plan_grids(grids, tmp_path, {})
    assert first.sources == ("timed now",)
    assert first.minutes > 0
    with pytest.raises(UserError, match="is no project; run `make real`"):
        plan_grids(grids, tmp_path / "nowhere", {})


def test_a_worker_runs_all_grids_and_a_shared_run_once(
    grids: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for grid in grids:
        grid.write_text(grid.read_text().replace("training.steps: 30", "training.steps: 1"))
    running.be_worker(tmp_path, grids)
    assert [collect(grid, tmp_path) for grid in grids] == [2, 1]
    (first, second) = (read_committed(committed_file(tmp_path, g.stem)) for g in grids)
    assert second["balls-baseline-2-labels-seed0"]["run"] in {v["run"] for v in first.values()}
    assert len(list((tmp_path / "balls" / "benchmark").glob("supervised-*"))) == 1
    # With the committed results alone, nothing is left to run.
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(plan_of_runs, "grid_order", lambda root: grids)  # noqa: ARG005 - as it is called
    for grid in grids:
        for file in working_results(tmp_path, grid.stem).root.glob("*.json"):
            file.unlink()
    running.use_known(tmp_path, grids, anew=True)
    assert not list(working_results(tmp_path, "first").root.glob("*.json"))
    running.use_known(tmp_path, grids)
    known = plan_of_runs.known_results(tmp_path, tmp_path)
    assert [plan.done for plan in plan_grids(grids, tmp_path, known)] == [2, 1]
    assert len(list(working_results(tmp_path, "first").root.glob("*.json"))) == 2


def test_mistakes_of_all_grids_are_told_before_any_run(grids: list[Path], tmp_path: Path) -> None:
    running.check_runs(tmp_path, grids)
    for grid in grids:
        grid.write_text(grid.read_text().replace("data.crop: [16, 16, 8]", "data.crop: [16, 16]"))
    with pytest.raises(UserError, match="crop"):
        running.check_runs(tmp_path, grids)


def test_unknown_grids_are_refused() -> None:
    with pytest.raises(UserError, match="there is no grid 'lla'; did you mean 'la'"):
        running.chosen_grids(["lla"])
    assert [path.stem for path in running.chosen_grids(["acdc", "la"])] == ["acdc", "la"]


METHODS = """
title: Methods
datasets:
  balls: {labelled: [2]}
rows:
  supervised: {}
  cps: {}
  bcp: {}
  ict:
    set: {data.workers: 0}
  tracoco: {}
set: {training.steps: 7}
"""


def write_methods(root: Path, dice: dict[str, float]) -> Path:
    path = root / "balls-methods.yaml"
    path.write_text(METHODS)
    results = {
        run.name: {
            "row": run.row,
            "run": "x",
            **asdict(replace(RESULT, method=run.row, dice=dice[run.row])),
        }
        for run in grid_runs(read_grid(path))
        if run.row in dice
    }
    write_committed(committed_file(root, "balls-methods"), results)
    return path


def test_the_best_rows_get_more_seeds_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(more_seeds, "BEST", 2)
    dice = {"supervised": 70.0, "cps": 80.0, "bcp": 75.0, "ict": 82.0, "tracoco": 72.0}
    path = write_methods(tmp_path, dice)
    assert choose(tmp_path, "balls-methods") == ["supervised", "cps", "ict", "tracoco"]
    seeds = {name: row.seeds for name, row in read_grid(path).rows.items()}
    assert seeds == dict.fromkeys(("supervised", "cps", "ict", "tracoco"), (0, 1, 2)) | {
        "bcp": None
    }
    assert choose(tmp_path, "balls-methods") == [], "the choice stays"
    assert len(read_grids(tmp_path)[0].missing) == 8


def test_nothing_is_chosen_before_every_row_has_its_first_seed(tmp_path: Path) -> None:
    write_methods(tmp_path, {"supervised": 70.0, "cps": 80.0})
    with pytest.raises(UserError, match="not run yet: bcp, ict, tracoco"):
        best_rows(read_grids(tmp_path)[0])
    with pytest.raises(UserError, match="write its seeds by hand"):
        with_seeds("rows: {cps: {}}", ["cps"])
