"""What the README says of real scans is what the committed results say."""

from pathlib import Path

import pytest
from benchmarks.real.page import ROOT
from benchmarks.real.rows import read_grids

from tracoco.studies.benchmark.results import over_seeds

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
GRIDS = {"ACDC": "acdc-unet", "Left Atrium": "la-half-vnet"}


@pytest.mark.parametrize("data", GRIDS)
def test_the_figures_are_those_of_the_results(data: str) -> None:
    (grid,) = (grid for grid in read_grids(ROOT) if grid.name == GRIDS[data])
    (rows,) = grid.rows.values()
    dice = (over_seeds(list(row.results.values()), "dice") for row in rows)
    supervised, cps, tracoco = (f"{found.mean:.1f}" for found in dice if found)
    result = rows[-1].results[0]
    labels = f"{result.labelled} of {result.labelled + result.unlabelled}"
    assert f"{data} with {labels} labels {supervised}, {cps} and {tracoco}" in README
