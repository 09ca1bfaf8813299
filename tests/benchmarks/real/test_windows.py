"""Dice by the overlap of windows is measured on trained runs, kept, and shown in pairs."""

from pathlib import Path

import pytest
from benchmarks.real.measure_windows import OVERLAPS, measure
from benchmarks.real.rows import read_grids
from benchmarks.real.windows import Windows, windows_section
from samples import make_project
from small_grid import TEXT

from tracoco.studies.benchmark.grid import grid_runs, read_grid
from tracoco.studies.benchmark.runner import Runner, Scoring


def of(row: str, seed: int, overlap: float, *cases: float) -> Windows:
    return Windows(row, 2, seed, overlap, 8 if overlap else 1, dict(zip("ab", cases, strict=True)))


def lines(*found: Windows) -> list[list[str]]:
    text = windows_section(found)
    rows = [line.strip("|\n").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def test_means_and_paired_differences_by_overlap() -> None:
    head, _, windows, cps, tracoco, difference = lines(
        of("cps", 0, 0.0, 80.0, 82.0),
        of("cps", 1, 0.0, 84.0, 86.0),
        of("cps", 0, 0.5, 90.0, 92.0),
        of("tracoco", 0, 0.0, 83.0, 85.0),
        of("tracoco", 1, 0.0, 87.0, 89.0),
        of("tracoco", 0, 0.5, 90.0, 92.0),
    )
    assert head == ["row", "labelled", "overlap 0", "overlap 0.5"]
    assert windows == ["windows a scan", "", "1", "8"]
    assert cps == ["cps", "2", "83.0 ± 2.8", "91.0"]
    assert tracoco == ["tracoco", "2", "86.0 ± 2.8", "91.0"]
    assert difference[0] == "tracoco − cps"  # noqa: RUF001 - a minus
    assert difference[2:] == ["+3.00 [+3.00, +3.00]", "+0.00 [+0.00, +0.00]"]


def test_rows_without_a_common_seed_are_not_compared() -> None:
    rows = lines(of("cps", 0, 0.0, 80.0, 82.0), of("tracoco", 1, 0.0, 83.0, 85.0))
    assert [row[0] for row in rows[2:]] == ["windows a scan", "cps", "tracoco"]
    assert windows_section(()) == ""


def test_trained_runs_are_measured_with_every_overlap(tmp_path: Path) -> None:
    project = make_project(tmp_path / "made", labelled=5, unlabelled=2, test=2)
    grid = tmp_path / "balls.yaml"
    grid.write_text(TEXT.replace("STEPS", "20"))
    trained, _ = grid_runs(read_grid(grid))
    runner = Runner(project, "balls", project.root / "benchmark")
    result = runner.result(trained.spec, trained.seed, Scoring())
    measure(tmp_path, "balls", project.root)
    (kept,) = read_grids(tmp_path)
    assert [each.overlap for each in kept.windows] == list(OVERLAPS)
    assert {each.run for each in kept.windows} == {("supervised", 2, 0)}
    counts = [each.windows for each in kept.windows]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    # These scans are stored on their own grid, so that the default is what the benchmark found.
    usual = next(each for each in kept.windows if each.overlap == 0.5)
    assert usual.case_dice == pytest.approx(result.case_dice)
