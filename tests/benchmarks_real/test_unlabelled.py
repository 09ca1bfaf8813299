"""Dice on scans whose labels were hidden is measured on trained runs, kept, and shown in pairs."""

from dataclasses import asdict
from pathlib import Path

import pytest
from benchmarks.real.measure_unlabelled import measure
from benchmarks.real.measured import keep
from benchmarks.real.rows import read_grids
from benchmarks.real.unlabelled import KIND, Unlabelled, unlabelled_section
from samples import make_project
from small_grid import TEXT

from tracoco.benchmark.grid import grid_runs, read_grid
from tracoco.benchmark.runner import Runner
from tracoco.evaluation.validation import mean_dice
from tracoco.inference.predictor import Predictor
from tracoco.project.store import Store


def of(row: str, seed: int, *cases: float) -> Unlabelled:
    return Unlabelled(row, 2, seed, dict(zip("ab", cases, strict=True)))


def lines(*found: Unlabelled) -> list[list[str]]:
    text = unlabelled_section(found)
    rows = [line.strip("|\n").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def test_means_and_paired_differences() -> None:
    head, _, supervised, cps, tracoco = lines(
        of("supervised", 0, 70.0, 72.0),
        of("supervised", 1, 74.0, 76.0),
        of("cps", 0, 80.0, 82.0),
        of("cps", 1, 84.0, 86.0),
        of("tracoco", 1, 85.0, 89.0),
    )
    assert head[3:] == ["Dice, %", "above supervised", "above cps", "above tracoco"]
    # Below itself nothing is said; tracoco has one seed, so only that one is compared.
    assert supervised[3:6] == ["73.0 ± 2.8", "", "-10.00 [-10.00, -10.00]"]
    assert cps[2:5] == ["2", "83.0 ± 2.8", "+10.00 [+10.00, +10.00]"]
    assert tracoco[2:4] == ["1", "87.0"]
    assert tracoco[5] == "+2.00 [+1.00, +3.00]"
    assert tracoco[6] == ""
    assert unlabelled_section(()) == ""


def test_runs_without_a_common_seed_are_not_compared() -> None:
    *_, tracoco = lines(of("cps", 0, 80.0, 82.0), of("tracoco", 1, 85.0, 89.0))
    assert tracoco[4:] == ["", "", ""]


def test_figures_of_runs_elsewhere_stay_and_come_in_the_order_of_the_grid(tmp_path: Path) -> None:
    (tmp_path / "balls.yaml").write_text(TEXT.replace("STEPS", "1"))
    for figures in (of("cps", 0, 80.0, 82.0), of("supervised", 0, 1.0, 2.0)):
        keep(tmp_path, KIND, "balls", [asdict(figures)])
    keep(tmp_path, KIND, "balls", [asdict(of("cps", 0, 90.0, 92.0))])
    (kept,) = read_grids(tmp_path)
    assert kept.unlabelled == (of("supervised", 0, 1.0, 2.0), of("cps", 0, 90.0, 92.0))


def test_trained_runs_are_measured_on_the_labels_that_were_hidden(tmp_path: Path) -> None:
    project = make_project(tmp_path / "made", labelled=8, unlabelled=2, test=2)
    grid = tmp_path / "balls.yaml"
    grid.write_text(TEXT.replace("STEPS", "1"))
    trained, _ = grid_runs(read_grid(grid))
    folder = Runner(project, "balls", project.root / "benchmark").trained(
        trained.spec, trained.seed
    )
    measure(tmp_path, "balls", project.root)
    (kept,) = read_grids(tmp_path)
    (found,) = kept.unlabelled
    assert found.run == ("supervised", 2, 0)
    # 3 of 5 training labels are hidden; scans that never had one, and test cases, are left out.
    assert len(found.case_dice) == 3
    assert not {*found.case_dice} & {*project.load_splits().test}
    predictor, (id_, dice) = Predictor.load(folder), next(iter(found.case_dice.items()))
    case = Store(project.store_root).case(id_)
    again = mean_dice(
        predictor.method, [case], predictor.window, predictor.config, predictor.device
    )
    assert dice == pytest.approx(100 * again)
