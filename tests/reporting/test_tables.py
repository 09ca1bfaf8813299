"""Tables as a terminal shows them."""

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tracoco.evaluation.evaluate import evaluate
from tracoco.evaluation.scores import Protocol, read_evaluation
from tracoco.reporting.comparison import ComparisonRow
from tracoco.reporting.tables import comparison_table, score_table

if TYPE_CHECKING:
    from reporting.conftest import Bench

ROW = ComparisonRow(
    "runs/a", "tracoco", 8, 72, 2000, 0, "test", "last", 12, 91.24, 3.5, 84.0, 1.234, 4.5, 0, "mm"
)


def text(table: Table) -> str:
    file = io.StringIO()
    Console(width=80, file=file).print(table)
    return file.getvalue()


def test_runs_are_compared_with_sensible_decimals() -> None:
    shown = text(comparison_table([ROW, replace(ROW, run="runs/b", method="supervised")]))
    line = next(line for line in shown.splitlines() if line.split()[:1] == ["a"])
    assert line.split() == ["a", "tracoco", "91.2", "±", "3.5", "84.0", "1.23", "4.50", "0"]


def test_what_all_runs_share_is_said_once_above() -> None:
    shown = text(comparison_table([ROW, replace(ROW, run="runs/b", seed=1)]))
    assert "method tracoco, labels 8+72, steps 2000, test set test" in " ".join(shown.split())
    assert "seed" in shown
    assert shown.count("tracoco") == 1


def test_what_is_unknown_is_a_dash() -> None:
    bare = ComparisonRow("runs/b", "tracoco", 8, 72, 2000, 0, note="not evaluated")
    shown = text(comparison_table([ROW, bare]))
    line = next(line for line in shown.splitlines() if "b [1]" in line)
    assert line.split()[2:] == ["–"] * 5  # noqa: RUF001 - dashes for what is unknown
    assert "[1] not evaluated" in shown


def test_runs_of_one_name_are_told_apart_by_their_path() -> None:
    shown = text(comparison_table([ROW, replace(ROW, run="other/a")]))
    assert "runs/a" in shown
    assert "other/a" in shown


def test_different_units_stand_with_their_numbers() -> None:
    shown = text(comparison_table([ROW, replace(ROW, run="runs/b", units="voxel")]))
    assert "4.50 mm" in shown
    assert "4.50 voxel" in shown


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    shown = text(comparison_table([ROW, replace(ROW, run="runs/" + "b" * 60, method="other")]))
    assert shown.count("91.2 ± 3.5") == 2
    assert "…" not in shown


def test_no_rows_make_an_empty_table() -> None:
    assert comparison_table([]).row_count == 0


def test_scores_show_means_and_the_worst_first(bench: "Bench") -> None:
    shown = text(score_table(read_evaluation(bench.scores(bench.run()) / "scores.json")))
    places = [shown.index(word) for word in ("mean of 3", "unseen", "shifted", "found")]
    assert places == sorted(places)
    assert "55.6 ± 50.9" in shown
    assert "1 missed" in shown


def test_scores_are_taken_before_they_are_written_too(bench: "Bench") -> None:
    out = bench.scores(bench.run())
    evaluation = evaluate(out, bench.root / "data-run-test" / "labels", Protocol(), {1: "organ"})
    assert text(score_table(evaluation)) == text(score_table(read_evaluation(out / "scores.json")))


def test_only_the_worst_cases_are_listed_and_names_are_not_markup(bench: "Bench") -> None:
    pair = bench.cases()["shifted"]
    out = bench.scores(bench.run(), {f"[bold]{index}": pair for index in range(7)})
    shown = text(score_table(read_evaluation(out / "scores.json")))
    assert shown.count("[bold]") == 5


def test_conventions_and_a_watermark_stand_by_the_scores(bench: "Bench") -> None:
    plain = text(score_table(read_evaluation(bench.scores(bench.run()) / "scores.json")))
    paper = Protocol(units="voxel", empty="zero", cct=True)
    out = bench.scores(bench.run("b"), protocol=paper, watermark="no estimate", cct=True)
    shown = text(score_table(read_evaluation(out / "scores.json")))
    for words in ("no estimate", "empty masks count as zero", "when predicting and before scoring"):
        assert words in shown
        assert words not in plain
