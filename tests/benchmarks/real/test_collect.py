"""Results of runs become one file per grid, and come back out of it where runs are needed."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.real.collect import (
    ROOT,
    collect,
    committed_file,
    committed_results,
    read_committed,
    unpack,
    working_results,
)
from small_grid import RESULT, TEXT

from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import GridRun, grid_runs, read_grid


def grid_of(root: Path, name: str = "balls") -> tuple[Path, list[GridRun]]:
    path = root / f"{name}.yaml"
    path.write_text(TEXT.replace("STEPS", "7"))
    return path, grid_runs(read_grid(path))


def test_results_are_merged_in_the_order_of_the_grid_and_once(tmp_path: Path) -> None:
    grid, (first, second) = grid_of(tmp_path)
    out, working = tmp_path / "out", working_results(tmp_path / "out", "balls")
    working.keep(second, Path("cps-x-seed0"), replace(RESULT, method="cps", dice=80.123456789))
    assert collect(grid, out) == 1
    path = committed_file(tmp_path, "balls")
    before = path.read_text()
    assert collect(grid, out) == 0
    assert path.read_text() == before
    working.keep(first, Path("supervised-x-seed0"), RESULT)
    assert collect(grid, out) == 1
    found = read_committed(path)
    assert list(found) == [first.name, second.name]
    assert found[second.name]["dice"] == 80.12346
    assert len(path.read_text().splitlines()) == 4, "a line per run"


def test_what_was_committed_elsewhere_stays(tmp_path: Path) -> None:
    grid, (first, second) = grid_of(tmp_path)
    working_results(tmp_path / "there", "balls").keep(first, Path("a"), RESULT)
    working_results(tmp_path / "here", "balls").keep(second, Path("b"), RESULT)
    assert collect(grid, tmp_path / "there") == collect(grid, tmp_path / "here") == 1
    assert list(read_committed(committed_file(tmp_path, "balls"))) == [first.name, second.name]
    assert dict(committed_results(tmp_path)) == {"a": RESULT, "b": RESULT}


def test_a_known_run_is_not_run_again_whichever_grid_has_it(tmp_path: Path) -> None:
    _, (first, second) = grid_of(tmp_path)
    other = replace(first, row="other name")
    runs = [(other, Path("same-seed0")), (second, Path("unknown-seed0"))]
    assert unpack("others", runs, {"same-seed0": RESULT}, tmp_path) == 1
    working = working_results(tmp_path, "others")
    assert working.find(other, Path("same-seed0")) == RESULT
    assert working.find(second, Path("unknown-seed0")) is None
    assert unpack("others", runs, {"same-seed0": RESULT}, tmp_path) == 0


def test_a_file_without_runs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "balls.json"
    path.write_text("[]")
    with pytest.raises(UserError, match=r"balls\.json has no runs"):
        read_committed(path)
    path.unlink()
    assert read_committed(path) == {}


def test_committed_results_are_one_file_per_grid() -> None:
    assert all(path.is_file() and path.suffix == ".json" for path in (ROOT / "results").iterdir())
    assert committed_results(ROOT)
