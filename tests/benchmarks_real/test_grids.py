"""The grids of the real data: they read, and every run of theirs can be built."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks.real.data_sets import DATA_SETS

from tracoco.benchmark.grid import grid_runs, read_grid
from tracoco.config import Config
from tracoco.methods import METHODS
from tracoco.presets import preset_chain
from tracoco.project.plan import Plan
from tracoco.training.build import run_crop, run_method

FOLDER = Path(__file__).parents[2] / "benchmarks" / "real"
COMMON = ["supervised", "cps", "tracoco-ce", "tracoco"]
FEW_ROWS = ["supervised", "tracoco", "tracoco-no-cutmix"]
GRIDS = {
    "hippocampus": ((3, 10), [*COMMON, "supervised-all"], (0, 1, 2)),
    "la": ((8,), [*COMMON, "supervised-all"], (0, 1, 2)),
    "la-room": ((8,), [*COMMON, "tracoco-c4", "supervised-all"], (0, 1, 2)),
    "la-weights": ((8,), [*COMMON, "tracoco-half", "tracoco-ce-c4", "tracoco-c4"], (0, 1)),
    "acdc": ((14,), [*COMMON, "tracoco-half", "supervised-all"], (0, 1)),
    "brats19": ((10,), FEW_ROWS, (0,)),
    "btcv-pancreas": ((4,), FEW_ROWS, (0,)),
}


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
    labelled, rows, seeds = GRIDS[name]
    grid = read_grid(FOLDER / f"{name}.yaml")
    ((data, asked),) = grid.datasets.items()
    assert data == name.removesuffix("-room").removesuffix("-weights")
    assert asked.preset == DATA_SETS[data].preset
    found = [(run.seed, run.row, run.labelled) for run in grid_runs(grid)]
    counts = {row: (None,) if row == "supervised-all" else labelled for row in rows}
    assert found == [(seed, row, n) for seed in seeds for row in rows for n in counts[row]]


def test_the_crops_with_room_have_two_thirds_of_a_left_atrium_or_less() -> None:
    scan = (64.5, 47.5, 29.0)  # mean lengths of the 80 scans
    for run in grid_runs(read_grid(FOLDER / "la-room.yaml")):
        crop = run.spec.config(0).data.crop or ()
        assert all(n < 0.68 * length for n, length in zip(crop, scan, strict=True))


def test_every_method_has_a_row_under_its_own_name_and_defaults() -> None:
    grid = read_grid(FOLDER / "hippocampus-methods.yaml")
    assert [(run.row, run.labelled) for run in grid_runs(grid)] == [(name, 10) for name in METHODS]
    assert not any(row.method for row in grid.rows.values())
    assert [name for name, row in grid.rows.items() if row.set] == ["cross-teaching"]
    assert not grid.set


@pytest.mark.parametrize("name", [*GRIDS, "hippocampus-methods"])
def test_every_run_of_a_grid_can_be_built(name: str) -> None:
    for run in grid_runs(read_grid(FOLDER / f"{name}.yaml")):
        config = run.spec.config(run.seed)
        plan = plan_of(run.dataset, config)
        run_method(config, plan)
        assert run_crop(config, plan) == plan.crop


@pytest.mark.parametrize(
    ("name", "row", "changed"),
    [
        ("la", "tracoco-ce", {"semi_supervised": "ce"}),
        ("la-room", "tracoco-c4", {"consistency_weight": 4.0}),
        ("la-weights", "tracoco-ce-c4", {"semi_supervised": "ce", "consistency_weight": 4.0}),
    ],
)
def test_a_row_differs_from_tracoco_in_what_its_name_says_alone(
    name: str, row: str, changed: dict[str, Any]
) -> None:
    runs = grid_runs(read_grid(FOLDER / f"{name}.yaml"))
    ours, other = (
        next(run.spec.config(0) for run in runs if run.row == wanted) for wanted in ("tracoco", row)
    )
    assert ours.method.settings["semi_supervised"] == "crc"
    assert other.method.settings != ours.method.settings
    assert other.method.settings == ours.method.settings | changed
    assert other.model_copy(update={"method": ours.method}) == ours


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_presets_share_their_base(name: str) -> None:
    preset = DATA_SETS[name].preset
    # The paper's networks are tried under the paper's settings.
    base = ["la-8", "la", "paper"] if name == "la-half" else ["cpu"]
    assert preset_chain(preset) == [preset, *base]
