"""How much runs depend on their surroundings is measured once, kept, and shown in pairs."""

import json
from pathlib import Path

import pytest
from benchmarks.real import measure_surroundings
from benchmarks.real.measure_surroundings import measure
from benchmarks.real.rows import read_grids
from benchmarks.real.surroundings import Surroundings, surroundings_section
from samples import make_project
from small_grid import TEXT

from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import ContextChoice, measure_context
from tracoco.studies.benchmark.grid import grid_runs, read_grid
from tracoco.studies.benchmark.runner import Runner


def of(row: str, seed: int, *cases: float, labelled: int | None = 2) -> Surroundings:
    return Surroundings(row, labelled, seed, 20, 0.01, dict(zip("abc", cases, strict=False)))


def lines(*found: Surroundings) -> list[list[str]]:
    text = surroundings_section(found)
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return rows[2:]


def test_figures_are_means_over_cases_and_seeds_and_differences_are_paired() -> None:
    rows = lines(
        of("cps", 0, 6.0, 8.0),
        of("cps", 1, 8.0, 10.0),
        of("tracoco", 0, 4.0, 6.0),
        of("tracoco", 1, 6.0, 8.0),
        of("supervised-all", 0, 5.0, 5.0, labelled=None),
    )
    assert rows[0] == ["cps", "2", "2", "8.0 ± 1.4", "0.010 ± 0.000", "+2.00 [+2.00, +2.00]"]
    assert rows[1][:4] == ["tracoco", "2", "2", "6.0 ± 1.4"]
    assert all("[" not in cell for cell in rows[1])
    assert rows[2][:4] == ["supervised-all", "all", "1", "5.0"]
    assert rows[2][-1] == "+0.00 [-1.00, +1.00]"


def test_every_label_is_not_compared_with_several_numbers_of_labels() -> None:
    *_, every = lines(
        of("tracoco", 0, 4.0, 6.0),
        of("tracoco", 0, 5.0, 7.0, labelled=5),
        of("supervised-all", 0, 5.0, 5.0, labelled=None),
    )
    assert all("[" not in cell for cell in every)


def test_only_seeds_and_cases_that_both_have_are_compared() -> None:
    rows = lines(of("cps", 0, 6.0, 8.0), of("cps", 1, 90.0), of("tracoco", 0, 4.0))
    assert rows[0][-1] == "+2.00 [+2.00, +2.00]"
    assert "[" not in surroundings_section((of("cps", 1, 6.0), of("tracoco", 0, 4.0)))
    other = Surroundings("tracoco", 2, 0, 20, 0.01, {"z": 4.0})
    assert "[" not in surroundings_section((of("cps", 0, 6.0), other))


def test_nothing_measured_is_nothing_shown(tmp_path: Path) -> None:
    (tmp_path / "balls.yaml").write_text(TEXT.replace("STEPS", "1"))
    (grid,) = read_grids(tmp_path)
    assert surroundings_section(grid.surroundings) == ""


def test_figures_of_runs_that_the_grid_does_not_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "balls.yaml").write_text(TEXT.replace("STEPS", "1"))
    (tmp_path / "surroundings").mkdir()
    row = {"row": "gone", "labelled": 2, "seed": 0, "pairs": 20, "divergence": 0.1}
    values = {"rows": [row | {"case_disagreement": {"a": 1.0}}]}
    (tmp_path / "surroundings" / "balls.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"balls\.json has runs that balls\.yaml has not"):
        read_grids(tmp_path)


def kept(root: Path) -> Surroundings:
    (grid,) = read_grids(root)
    (found,) = grid.surroundings
    return found


def test_trained_runs_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "made", labelled=5, unlabelled=2, test=2)
    (tmp_path / "balls.yaml").write_text(TEXT.replace("STEPS", "1"))
    trained, _ = grid_runs(read_grid(tmp_path / "balls.yaml"))
    Runner(project, "balls", project.root / "benchmark").trained(trained.spec, trained.seed)
    measure(tmp_path, "balls", project.root)
    found = kept(tmp_path)
    assert (found.row, found.labelled, found.seed, found.pairs) == ("supervised", 2, 0, 20)
    assert found.divergence is not None
    assert found.divergence > 0
    assert set(found.case_disagreement) <= set(project.load_splits().test)
    folder = next((project.root / "benchmark").glob("supervised-*"))
    measure_context(folder, project.root, ContextChoice(shifts=1))  # as `tracoco context` may do
    measure(tmp_path, "balls", project.root)
    assert kept(tmp_path) == found
    monkeypatch.delattr(measure_surroundings, "measure_context")
    measure(tmp_path, "balls", project.root)
    assert kept(tmp_path) == found
