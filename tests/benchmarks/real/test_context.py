"""What runs owe to their surroundings is measured once, kept, and shown in pairs."""

import json
from pathlib import Path

import pytest
from benchmarks.real import measure_context
from benchmarks.real.context import Surroundings, Windows, shifts_section, windows_section
from benchmarks.real.measure_context import OVERLAPS, measure
from benchmarks.real.rows import read_grids
from samples import make_project
from small_grid import TEXT

from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import grid_runs, read_grid
from tracoco.studies.benchmark.runner import Runner, Scoring


def of(row: str, seed: int, *cases: float, labelled: int | None = 2) -> Surroundings:
    values = dict(zip("abc", cases, strict=False))
    return Surroundings(row, labelled, seed, f"{row}-seed{seed}", 20, 0.01, values)


def covered(row: str, seed: int, overlap: float | None, *cases: float) -> Windows:
    values = dict(zip("ab", cases, strict=True))
    return Windows(row, 2, seed, f"{row}-seed{seed}", overlap, 8 if overlap else 1, values)


def lines(text: str) -> list[list[str]]:
    rows = [line.strip("|\n").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows][2:]


def test_figures_are_means_over_cases_and_seeds_and_differences_are_paired() -> None:
    found = [
        of("cps", 0, 6.0, 8.0),
        of("cps", 1, 8.0, 10.0),
        of("tracoco", 0, 4.0, 6.0),
        of("tracoco", 1, 6.0, 8.0),
        of("supervised-all", 0, 5.0, 5.0, labelled=None),
    ]
    rows = lines(shifts_section(found))
    assert rows[0] == ["cps", "2", "2", "8.0 ± 1.4", "0.010 ± 0.000", "+2.00 [+2.00, +2.00]"]
    assert rows[1][:4] == ["tracoco", "2", "2", "6.0 ± 1.4"]
    assert all("[" not in cell for cell in rows[1])
    assert rows[2][:4] == ["supervised-all", "all", "1", "5.0"]
    assert rows[2][-1] == "+0.00 [-1.00, +1.00]"


def test_only_seeds_and_cases_that_both_have_are_compared() -> None:
    rows = lines(
        shifts_section([of("cps", 0, 6.0, 8.0), of("cps", 1, 90.0), of("tracoco", 0, 4.0)])
    )
    assert rows[0][-1] == "+2.00 [+2.00, +2.00]"
    assert "[" not in shifts_section([of("cps", 1, 6.0), of("tracoco", 0, 4.0)])
    assert shifts_section([]) == windows_section([]) == ""


def test_dice_and_paired_differences_by_overlap_and_of_whole_scans() -> None:
    found = [
        covered("cps", 0, 0.0, 80.0, 82.0),
        covered("cps", 1, 0.0, 84.0, 86.0),
        covered("cps", 0, None, 90.0, 92.0),
        covered("tracoco", 0, 0.0, 83.0, 85.0),
        covered("tracoco", 1, 0.0, 87.0, 89.0),
        covered("tracoco", 0, None, 90.0, 92.0),
    ]
    text = windows_section(found)
    assert "| row | labels | overlap 0 | whole scan |" in text
    windows, cps, tracoco, difference = lines(text)
    assert windows == ["windows per scan", "", "1", "1"]
    assert cps == ["cps", "2", "83.0 ± 2.8", "91.0"]
    assert tracoco == ["tracoco", "2", "86.0 ± 2.8", "91.0"]
    assert difference[0] == "tracoco − cps"  # noqa: RUF001 - a minus
    assert difference[2:] == ["+3.00 [+3.00, +3.00]", "+0.00 [+0.00, +0.00]"]


def test_figures_of_runs_that_the_grid_does_not_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "balls.yaml").write_text(TEXT.replace("STEPS", "1"))
    (tmp_path / "shifts").mkdir()
    row = {"row": "gone", "labelled": 2, "seed": 0, "folder": "gone", "pairs": 20}
    values = {"rows": [row | {"divergence": 0.1, "case_disagreement": {"a": 1.0}}]}
    (tmp_path / "shifts" / "balls.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"balls\.json has runs that balls\.yaml has not"):
        read_grids(tmp_path)


def test_trained_runs_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "made", labelled=5, unlabelled=2, test=2)
    (tmp_path / "balls.yaml").write_text(TEXT.replace("STEPS", "20"))
    trained, _ = grid_runs(read_grid(tmp_path / "balls.yaml"))
    runner = Runner(project, "balls", project.root / "benchmark")
    result = runner.result(trained.spec, trained.seed, Scoring())
    measure(tmp_path, "balls", project.root)
    (kept,) = read_grids(tmp_path)
    (found,) = kept.shifts
    assert (found.row, found.labelled, found.seed, found.pairs) == ("supervised", 2, 0, 20)
    assert found.divergence is not None
    assert found.divergence > 0
    assert set(found.case_disagreement) <= set(project.load_splits().test)
    assert [each.overlap for each in kept.windows] == [*OVERLAPS, None]
    counts = [each.windows for each in kept.windows]
    assert counts[:-1] == sorted(counts[:-1])
    assert counts[-1] == 1 < counts[-2]
    # These scans are stored on their own grid, so that the default is what the benchmark found.
    usual = next(each for each in kept.windows if each.overlap == 0.5)
    assert usual.case_dice == pytest.approx(result.case_dice)
    monkeypatch.delattr(measure_context, "measure_context")
    monkeypatch.delattr(measure_context, "mean_dice")
    measure(tmp_path, "balls", project.root)
    assert read_grids(tmp_path)[0].shifts == (found,)
