"""A grid of runs as its file describes it: data sets x rows x numbers of labels x seeds."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from tracoco.config import Config, recorded_settings
from tracoco.errors import did_you_mean, raise_all
from tracoco.files import digest
from tracoco.methods import resolved_choice
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.runs.build import planned
from tracoco.settings import Settings, checked, read_yaml, with_old_names


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A preset, or none, and what is changed in it; the seed stands apart."""

    preset: str | None
    changes: tuple[str, ...] = ()
    """`KEY=VALUE`, the last one wins."""

    def config(self, seed: int, plan: Plan | None = None) -> Config:
        """The settings of one seed, with those of the method spelt out.

        With a plan, its width, steps and precision stand where the settings have none.
        """
        config = load_config(self.preset, [*self.changes, f"seed={seed}"])
        config = config.model_copy(update={"method": resolved_choice(config.method)})
        return planned(config, plan) if plan else config

    def folder(self, root: Path, seed: int, data: str = "", plan: Plan | None = None) -> Path:
        """Where the run lies: two grids that ask for the same run share it.

        Args:
            root: the folder of all runs.
            seed: of this one.
            data: a digest of splits, plan and scans; other data is another run.
            plan: the project's.
        """
        config = self.config(seed, plan)
        settings = {key: v for key, v in recorded_settings(config).items() if key != "seed"}
        # So that runs and results of 0.1.0 are found.
        settings["method"] = with_old_names(settings["method"])
        labels = "" if config.data.labelled is None else f"-{config.data.labelled}labels"
        return root / f"{config.method.name}{labels}-{digest([settings, data])[:8]}-seed{seed}"


Changes = dict[str, Any]
"""Settings by their dotted names, e.g. `training.steps: 1500`."""


class GridRow(Settings):
    """One way of training, which is a row of the table."""

    method: str | None = None
    """The row's own name if not given."""
    labelled: Literal["all"] | None = None
    """`all`: with every label that there is, whatever the grid's numbers are, as an upper bound."""
    seeds: tuple[NonNegativeInt, ...] | None = Field(default=None, min_length=1)
    """In place of the seeds of the data set and of the grid, e.g. more for the best rows."""
    set: Changes = Field(default_factory=dict)


class GridData(Settings):
    """A data set of the grid; what is not given is as in the whole grid."""

    preset: str | None = None
    labelled: tuple[PositiveInt, ...] = Field(min_length=1)
    """Numbers of labelled cases; the other labels are hidden."""
    seeds: tuple[NonNegativeInt, ...] | None = None
    rows: tuple[str, ...] | None = None
    set: Changes = Field(default_factory=dict)


class Grid(Settings):
    """What is to be run, and what the table is called."""

    title: str
    datasets: dict[str, GridData] = Field(min_length=1)
    rows: dict[str, GridRow] = Field(min_length=1)
    seeds: tuple[NonNegativeInt, ...] = Field(default=(0,), min_length=1)
    set: Changes = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GridRun:
    """One run of a grid."""

    dataset: str
    row: str
    labelled: int | None
    """None for all."""
    seed: int
    spec: RunSpec

    @property
    def name(self) -> str:
        """Of the file that keeps its result."""
        words = (self.dataset, self.row, f"{self.labelled or 'all'}-labels", f"seed{self.seed}")
        return "-".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in words)


def read_grid(path: Path) -> Grid:
    """Read a grid's file, or say what is wrong with it."""
    grid = checked(Grid, read_yaml(path), str(path))
    raise_all(
        [
            f"{path}: data set '{name}' has no row '{row}'; {did_you_mean(row, grid.rows)}"
            for name, data in grid.datasets.items()
            for row in data.rows or ()
            if row not in grid.rows
        ]
    )
    names = [run.name for run in grid_runs(grid)]
    raise_all([f"{path}: two runs are called {n}" for n in sorted({*names}) if names.count(n) > 1])
    return grid


def grid_runs(grid: Grid) -> list[GridRun]:
    """All runs; every row of a data set gets its first seed before any gets a second one."""
    return [run for name, data in grid.datasets.items() for run in _data_runs(grid, name, data)]


def _data_runs(grid: Grid, name: str, data: GridData) -> Iterator[GridRun]:
    usual = data.seeds or grid.seeds
    names = data.rows or tuple(grid.rows)
    more = [seed for name in names for seed in grid.rows[name].seeds or ()]
    for seed in dict.fromkeys([*usual, *more]):
        for row_name in names:
            row = grid.rows[row_name]
            if seed not in (row.seeds or usual):
                continue
            # The name comes first: settings of another method go when a method is named.
            method = {"method.name": row.method or row_name}
            changes = method | grid.set | data.set | row.set
            for labelled in (None,) if row.labelled == "all" else data.labelled:
                hidden = {} if labelled is None else {"data.labelled": labelled}
                words = (f"{key}={json.dumps(v)}" for key, v in (changes | hidden).items())
                spec = RunSpec(data.preset, tuple(words))
                yield GridRun(name, row_name, labelled, seed, spec)
