"""A grid's file becomes runs, and mistakes in it are told before anything is trained."""

from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import grid_runs, read_grid

GRID = """
title: Two data sets
datasets:
  heart:
    labelled: [2, 4]
    set: {data.flips: none}
  brain:
    labelled: [3]
    seeds: [5]
    rows: [tracoco]
rows:
  supervised: {}
  tracoco:
    set: {method.gamma: 0.7}
  without CRC:
    method: tracoco
    set: {method.semi_supervised: ce}
  all labels:
    method: supervised
    labelled: all
seeds: [0, 1]
set: {training.steps: 7}
"""


def grid_file(folder: Path, text: str = GRID) -> Path:
    path = folder / "grid.yaml"
    path.write_text(text)
    return path


def test_a_grid_is_data_sets_by_rows_by_labels_by_seeds(tmp_path: Path) -> None:
    runs = grid_runs(read_grid(grid_file(tmp_path)))
    # heart: three rows with 2 and 4 labels, one with all, two seeds; brain: one run.
    assert len(runs) == (3 * 2 + 1) * 2 + 1
    assert [run.name for run in runs if run.dataset == "brain"] == ["brain-tracoco-3-labels-seed5"]
    assert "heart-without-crc-4-labels-seed1" in {run.name for run in runs}
    assert "heart-all-labels-all-labels-seed0" in {run.name for run in runs}


def test_every_row_gets_its_first_seed_before_any_gets_its_second(tmp_path: Path) -> None:
    seeds = [
        run.seed for run in grid_runs(read_grid(grid_file(tmp_path))) if run.dataset == "heart"
    ]
    assert seeds == sorted(seeds)


def test_a_row_can_have_seeds_of_its_own_and_the_others_keep_theirs(tmp_path: Path) -> None:
    text = GRID.replace("  supervised: {}", "  supervised: {seeds: [0, 2]}")
    runs = grid_runs(read_grid(grid_file(tmp_path, text)))
    seeds = {
        row: [run.seed for run in runs if (run.dataset, run.row, run.labelled) == ("heart", row, 2)]
        for row in ("supervised", "tracoco")
    }
    assert seeds == {"supervised": [0, 2], "tracoco": [0, 1]}
    assert {run.seed for run in runs if run.dataset == "brain"} == {5}
    assert [run.seed for run in runs if run.dataset == "heart"] == [0] * 7 + [1] * 5 + [2] * 2


def test_settings_of_the_grid_the_data_and_the_row_come_together(tmp_path: Path) -> None:
    runs = {run.name: run for run in grid_runs(read_grid(grid_file(tmp_path)))}
    config = runs["heart-tracoco-2-labels-seed1"].spec.config(1)
    assert (config.training.steps, config.data.flips, config.data.labelled) == (7, "none", 2)
    assert config.method.settings["gamma"] == 0.7
    ablated = runs["heart-without-crc-2-labels-seed1"].spec.config(1)
    assert (ablated.method.name, ablated.method.settings["semi_supervised"]) == ("tracoco", "ce")
    bound = runs["heart-all-labels-all-labels-seed0"].spec.config(0)
    assert (bound.method.name, bound.data.labelled) == ("supervised", None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows: [tracoco]", "rows: [tracco]", "did you mean 'tracoco'"),
        ("title:", "titel:", "titel"),
        ("labelled: [3]", "labelled: []", "labelled"),
        ("without CRC", "Tracoco", "two runs are called heart-tracoco-2-labels-seed0"),
        ("title: Two", "title: [Two", "not valid YAML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_grid(grid_file(tmp_path, GRID.replace(old, new)))


def test_a_grid_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_grid(tmp_path / "grid.yaml")
