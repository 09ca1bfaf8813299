"""The grids of the real data: they read, and every run of theirs can be built."""

from pathlib import Path

import pytest
from benchmarks.real.data_sets import DATA_SETS
from benchmarks.real.plan_of_runs import grid_order
from benchmarks.real.tables import PUBLISHED

from tracoco.config import Config
from tracoco.methods import METHODS
from tracoco.presets import preset_chain
from tracoco.project.plan import Plan
from tracoco.runs.build import run_crop, run_method
from tracoco.studies.benchmark.grid import grid_runs, read_grid

FOLDER = Path(__file__).parents[3] / "benchmarks" / "real"
ROWS = ["supervised", "supervised-minutes", "bcp", "cps", "tracoco-ce", "tracoco"]
"""Of the main grids, beside the one with every label."""
GRIDS = {"hippocampus": 3, "la": 8, "acdc": 14, "brats19": 10, "btcv-pancreas": 4}
"""Labels of the main grids."""
BOTH = ["la", "hippocampus"]
"""Data sets that have every kind of grid."""
OTHERS = [f"{data}-{kind}" for kind in ("components", "labels", "methods") for data in BOTH]
OTHERS += ["hippocampus-partial"]


def plan_of(name: str, config: Config) -> Plan:
    """A plan with the data set's classes and the preset's crop."""
    values = tuple(range(len(DATA_SETS[name].class_names) + 1))
    crop = config.data.crop or ()
    return Plan.model_validate(
        {
            "dimensions": len(crop),
            "channels": 1,
            "label_values": values,
            "class_names": tuple(map(str, values)),
            "slice_axis": None if len(crop) == 3 else 0,
            "spacing_mm": (1.0, 1.0, 1.0),
            "crop": (1,) * (3 - len(crop)) + crop,
        }
    )


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_has_its_rows_its_labels_and_its_seeds(name: str) -> None:
    grid = read_grid(FOLDER / f"{name}.yaml")
    ((data, asked),) = grid.datasets.items()
    assert data == name
    assert asked.preset == DATA_SETS[name].preset
    found = [(run.seed, run.row, run.labelled) for run in grid_runs(grid)]
    rows = [*((row, GRIDS[name]) for row in ROWS), ("supervised-all", None)]
    assert found == [(seed, *row) for seed in range(3) for row in rows]


def test_no_other_grid_is_there_and_each_has_its_turn() -> None:
    found = {path.stem for path in FOLDER.glob("*.yaml")}
    assert found == {*GRIDS, *OTHERS}
    order = [path.stem for path in grid_order()]
    assert {*order} == found
    assert {*order[: len(GRIDS)]} == {*GRIDS}, "the main table comes first"


@pytest.mark.parametrize("data", BOTH)
def test_every_method_has_a_row_under_its_own_name_and_defaults(data: str) -> None:
    grid = read_grid(FOLDER / f"{data}-methods.yaml")
    first = [(run.row, run.labelled) for run in grid_runs(grid) if run.seed == 0]
    alone = [name for name, row in METHODS.items() if row.alone]
    assert first == [(name, GRIDS[data]) for name in alone]
    assert not any(row.method for row in grid.rows.values())
    assert [name for name, row in grid.rows.items() if row.set] == ["cross-teaching"]
    assert not grid.set


@pytest.mark.parametrize("data", BOTH)
def test_components_are_runs_of_the_main_table_but_for_one(data: str) -> None:
    main, parts = (
        {run.spec.folder(Path(), run.seed).name: run for run in grid_runs(read_grid(path))}
        for path in (FOLDER / f"{data}.yaml", FOLDER / f"{data}-components.yaml")
    )
    alone = {(run.row, run.seed) for name, run in parts.items() if name not in main}
    assert alone == {("co-training", 0), ("co-training", 1)}
    shared = {run.row: main[name].row for name, run in parts.items() if name in main}
    wanted = {"+ CutMix": "cps", "+ translation consistency": "tracoco-ce", "+ CRC": "tracoco"}
    assert shared == wanted
    assert set(PUBLISHED) == set(wanted)


@pytest.mark.parametrize("data", BOTH)
def test_label_curves_share_the_labels_of_the_main_table(data: str) -> None:
    main, curve = (
        {run.spec.folder(Path(), run.seed).name for run in grid_runs(read_grid(path))}
        for path in (FOLDER / f"{data}.yaml", FOLDER / f"{data}-labels.yaml")
    )
    assert len(main & curve) == 3 * 2, "two seeds of supervised, tracoco and all labels"
    grid = read_grid(FOLDER / f"{data}-labels.yaml")
    assert {2, 4, 8, 16, 32} <= {*grid.datasets[data].labelled}


@pytest.mark.parametrize("name", [*GRIDS, *OTHERS])
def test_every_run_of_a_grid_can_be_built(name: str) -> None:
    # A row is built once: seeds and numbers of labels change nothing in it.
    runs = {run.row: run for run in grid_runs(read_grid(FOLDER / f"{name}.yaml"))}
    for run in runs.values():
        config = run.spec.config(run.seed)
        plan = plan_of(run.dataset, config)
        run_method(config, plan)
        assert run_crop(config, plan) == plan.crop


@pytest.mark.parametrize("name", GRIDS)
def test_the_row_with_cross_entropy_differs_from_tracoco_in_that_alone(name: str) -> None:
    runs = grid_runs(read_grid(FOLDER / f"{name}.yaml"))
    ours, other = (
        next(run.spec.config(0) for run in runs if run.row == wanted)
        for wanted in ("tracoco", "tracoco-ce")
    )
    assert ours.method.settings["semi_supervised"] == "crc"
    assert other.method.settings == ours.method.settings | {"semi_supervised": "ce"}
    assert other.model_copy(update={"method": ours.method}) == ours


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_presets_share_their_base(name: str) -> None:
    preset = DATA_SETS[name].preset
    assert preset_chain(preset) == [preset, "cpu"]
