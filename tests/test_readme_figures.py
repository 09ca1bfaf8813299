"""What the README says of real scans is what the committed results say."""

import re
from pathlib import Path

import pytest
from benchmarks.real.page import ROOT
from benchmarks.real.rows import read_grids

from tracoco.benchmark.result import over_seeds

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+, [\w ]+) \| (\d+) of (\d+) \| ([\d. |]+) \|$", README, re.MULTILINE)
GRIDS = {
    "Left Atrium, MR": "la",
    "Left Atrium, smaller crops": "la-room",
    "hippocampus, MR": "hippocampus",
    "heart of ACDC, MR": "acdc",
}


@pytest.mark.parametrize(("data", "labelled", "scans", "figures"), ROWS)
def test_the_figures_are_those_of_the_results(
    data: str, labelled: str, scans: str, figures: str
) -> None:
    (grid,) = (grid for grid in read_grids(ROOT) if grid.name == GRIDS[data])
    (rows,) = grid.rows.values()
    found = {row.name: row for row in rows if row.labelled in {int(labelled), None}}
    shown = []
    for name in ("supervised", "cps", "tracoco", "supervised-all"):
        assert len(found[name].results) == len(found[name].runs), "not all seeds are done"
        dice = over_seeds(list(found[name].results.values()), "dice")
        assert dice
        shown.append(f"{dice.mean:.1f}")
    assert figures.split(" | ") == shown
    assert {result.labelled for result in found["supervised-all"].results.values()} == {int(scans)}


@pytest.mark.parametrize("name", ["brats19", "btcv-pancreas"])
def test_failures_are_told_with_their_figures(name: str) -> None:
    (grid,) = (grid for grid in read_grids(ROOT) if grid.name == name)
    (rows,) = grid.rows.values()
    before, after, without = (row.results[0].dice for row in rows)
    assert f"from {before:.1f} to {after:.1f}, without CutMix to {without:.1f}" in README


def test_the_defaults_are_told_with_their_figures() -> None:
    (grid,) = (grid for grid in read_grids(ROOT) if grid.name == "hippocampus-defaults")
    (rows,) = grid.rows.values()
    found = (over_seeds(list(row.results.values()), "dice") for row in rows)
    supervised, cps, tracoco = (f"{dice.mean:.1f}" for dice in found if dice)
    assert f"supervised {supervised}, CPS {cps}, TraCoCo {tracoco}" in README


def test_the_readme_has_such_rows() -> None:
    assert {data for data, *_ in ROWS} == GRIDS.keys()
