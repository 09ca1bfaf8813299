"""The paper's figures: their settings and runs, the files that they become, and two of scores."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.table import Table

from tracoco.errors import UserError
from tracoco.presets import preset_names
from tracoco.project.folder import Project
from tracoco.studies.benchmark.results import RunResult
from tracoco.studies.paper.contents import paper_content
from tracoco.studies.paper.figure import Drawn, show_figure
from tracoco.studies.paper.figures import labels as figures_labels
from tracoco.studies.paper.figures import thresholds as figures_thresholds
from tracoco.studies.paper.figures.figure_settings import (
    COUNTS,
    FigureRun,
    figure_notes,
    preset_for,
    result_notes,
)
from tracoco.studies.paper.figures.labels import doubled_counts, label_counts, label_runs
from tracoco.studies.paper.figures.thresholds import SETTINGS, thresholds
from tracoco.studies.paper.request import PaperRequest

Ask = Callable[..., PaperRequest]


def result(**changes: Any) -> RunResult:
    values: dict[str, Any] = {
        **dict.fromkeys(("dataset", "method", "units", "empty"), ""),
        **dict.fromkeys(("labelled", "unlabelled", "seed", "steps", "cases", "missed"), 0),
        **dict.fromkeys(("dice", "jaccard", "asd", "hd95"), 50.0),
        **dict.fromkeys(("seconds_a_step", "seconds_a_case"), 1.0),
        "checkpoint": "last",
        "cct": False,
        "watermark": "",
        "versions": {},
        "case_dice": {},
        "seconds": 1.0,
    }
    return RunResult(**values | changes)


def series(figure: Figure, panel: int, name: str) -> list[tuple[float, float]]:
    found = next(c for c in figure.axes[panel].containers if c.get_label() == name)
    points = np.asarray(found.lines[0].get_xydata())  # type: ignore[attr-defined]  # a base type
    return [(float(x), float(y)) for x, y in points]


def test_other_data_sets_take_the_preset_with_as_few_labels() -> None:
    plain = PaperRequest({})
    assert preset_for(plain, "brats19", "brats19-50") == "brats19-50"
    assert preset_for(plain, "", "brats19-50") == "brats19-50"
    assert preset_for(plain, "la", "brats19-50") == "la-16"
    assert preset_for(plain, "pancreas", "brats19-25") == "pancreas-6"
    assert preset_for(plain, "brats19", "pancreas-12") == "brats19-50"
    assert preset_for(plain, "acdc", "la-8") == "acdc-3"
    assert preset_for(replace(plain, preset="demo"), "brats19-slices", "la-8") == "demo"
    with pytest.raises(UserError, match="no settings for a figure of brats19-slices"):
        preset_for(plain, "brats19-slices", "la-8")
    assert {f"{data}-{n}" for data, counts in COUNTS.items() for n in counts} <= {*preset_names()}


def test_notes_say_whose_data_and_settings_it_is(
    ask: Ask, small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    about, seeds = figure_notes(ask(seeds=3), "", "brats19-50")
    assert "drawn from 'project', not from the paper's brats19" in about
    assert seeds == f"seeds 0 to 2, their mean; runs: {small.root / 'paper'}"
    papers = "tracoco.studies.paper.figures.figure_settings.is_the_papers"
    monkeypatch.setattr(papers, lambda _, data: data == "la")
    changed, _ = figure_notes(ask("la"), "la", "brats19-50")
    assert "settings were changed" in changed
    own = PaperRequest({"la": small.root})
    assert figure_notes(own, "la", "la-8") == (f"seed 0; runs: {small.root / 'paper'}",)


def test_scores_come_with_their_watermark_and_what_was_missed() -> None:
    marked = result(watermark="chosen on test", missed=2)
    first, second = result_notes([marked, marked, result()])
    assert first == "chosen on test"
    assert second.startswith("4 structures missed")
    assert result_notes([result()]) == ()


def drawn(_: PaperRequest, data: str) -> Drawn:
    row = {"name": f"data '{data}'", "ours": 12.345, "ours_sd": 0.5, "published": None, "count": 3}
    rows = [row, row | {"ours": 0.1, "ours_sd": None, "published": 0.25}]
    return Drawn(Figure(), rows, ("a note",))


def never(_: PaperRequest, data: str) -> Drawn:
    raise AssertionError(f"drawn {data} before the file was checked")


def test_a_figure_is_a_file_a_table_and_plain_values(
    ask: Ask, small: Project, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "figure.svg"
    shown = show_figure("x", "X", drawn, ask("la"), path)
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert shown.lines == ("a note", f"figure: {path}")
    assert shown.values["notes"] == ["a note"]
    assert shown.values["rows"][0]["name"] == "data 'la'"
    assert isinstance(shown.table, Table)
    cells = [[str(cell) for cell in column.cells] for column in shown.table.columns]
    assert cells == [
        ["data 'la'"] * 2,
        ["12.35 ± 0.50", "0.10"],
        ["–", "0.250"],  # noqa: RUF001 - an en dash
        ["3", "3"],
    ]
    json.dumps(shown.values)
    beside = show_figure("x", "X", drawn, ask(), None)
    assert beside.values["file"] == str(small.root / "paper" / "x.png")
    assert (small.root / "paper" / "x.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_written_is_told_before_any_training(
    ask: Ask, small: Project, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="cannot be written as 'doc'"):
        show_figure("x", "X", never, ask(), tmp_path / "figure.doc")
    with pytest.raises(UserError, match="is a folder"):
        show_figure("x", "X", never, ask(), tmp_path)
    two = PaperRequest({"la": small.root, "": small.root})
    for wrong in (two, PaperRequest({})):
        with pytest.raises(UserError, match="tracoco paper x --project"):
            show_figure("x", "X", never, wrong, None)


def test_counts_double_and_end_with_all() -> None:
    assert doubled_counts(2, 16) == [2, 4, 8, 16]
    assert doubled_counts(3, 16) == [3, 6, 12, 16]
    assert doubled_counts(5, 5) == [5]


def test_the_papers_numbers_of_labels_are_its_presets() -> None:
    runs = label_runs(PaperRequest({}), "pancreas")
    assert [(each.method, each.run.preset) for each in runs] == [
        ("supervised", "pancreas-6"),
        ("tracoco", "pancreas-6"),
        ("supervised", "pancreas-12"),
        ("tracoco", "pancreas-12"),
        ("supervised", "pancreas-24"),
        ("tracoco", "pancreas-24"),
        ("supervised", "pancreas-62"),
    ]
    for each in (*runs, *label_runs(PaperRequest({}), "acdc")):
        config = PaperRequest({}).spec(each.run.preset, each.run.changes).config(0)
        assert (config.method.name, config.data.labelled) == (each.method, each.labelled)


def test_scores_by_labels_are_means_over_seeds_and_gains_are_differences(
    ask: Ask, small: Project
) -> None:
    found = label_counts(ask(seeds=2), "")
    assert [(row["labelled"], row["method"]) for row in found.rows] == [
        (2, "supervised"),
        (2, "tracoco"),
        (3, "supervised"),
    ]
    files = sorted((small.root / "paper").glob("tracoco-2labels-*/results/*.json"))
    ours = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert [each["seed"] for each in ours] == [0, 1]
    scores = [each["dice"] for each in ours]
    row = found.rows[1]
    assert row["dice"] == pytest.approx(sum(scores) / 2)
    assert row["dice_sd"] == pytest.approx(stdev(scores))
    assert row["gain"] == pytest.approx(row["dice"] - found.rows[0]["dice"])
    assert found.rows[0]["gain"] is None
    assert {row["published_gain"] for row in found.rows} == {None}
    assert series(found.figure, 0, "tracoco") == [(2, row["dice"])]
    every = list((small.root / "paper").glob("supervised-3labels-*-seed0"))
    assert len(every) == 1


def test_published_scores_stand_beside_those_of_the_same_labels(
    small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tested(
        asked: PaperRequest, _: str, runs: Sequence[FigureRun]
    ) -> list[tuple[RunResult, ...]]:
        assert asked.labelled is None
        return [(result(dice=80.0 + index, hd95=None),) for index in range(len(runs))]

    monkeypatch.setattr(figures_labels, "tested_runs", tested)
    plain = PaperRequest({"la": small.root})
    rows = {(row["labelled"], row["method"]): row for row in label_counts(plain, "la").rows}
    assert rows[8, "tracoco"]["published_gain"] == 8.26
    assert rows[8, "tracoco"]["published_dice"] == 89.29
    assert rows[16, "tracoco"]["published_dice"] == 90.94
    assert rows[80, "supervised"]["published_dice"] == 91.47
    assert rows[8, "supervised"]["published_gain"] is None
    assert rows[32, "tracoco"]["gain"] == 1
    assert rows[32, "tracoco"]["hd95"] is None


def test_each_threshold_changes_while_the_other_stays(
    small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[Any] = []

    def tested(
        asked: PaperRequest, _: str, runs: Sequence[FigureRun]
    ) -> list[tuple[RunResult, ...]]:
        specs.extend(asked.spec(run.preset, run.changes) for run in runs)
        return [(result(dice=60.0 + index),) for index in range(len(runs))]

    monkeypatch.setattr(figures_thresholds, "tested_runs", tested)
    found = thresholds(PaperRequest({"brats19": small.root}), "brats19")
    settings = [spec.config(0).method.settings for spec in specs]
    assert [(each["gamma"], each["beta"]) for each in settings] == [
        *((gamma, 0.1) for gamma in (0.3, 0.5, 0.65, 0.8, 0.95)),
        *((0.65, beta) for beta in (0, 0.05, 0.1, 0.2, 0.3)),
    ]
    # Where the curves meet the run is one and the same.
    assert specs[2].folder(Path(), 0) == specs[7].folder(Path(), 0)
    assert {spec.config(0).data.labelled for spec in specs} == {50}
    published = {(row["threshold"], row["value"]): row["published"] for row in found.rows}
    assert published["gamma", 0.3] == 84.93
    assert published["beta", 0.0] == 85.20
    assert published["beta", 0.3] is None
    assert series(found.figure, 0, "ours") == [
        (g, 60 + i) for i, (_, g, *_) in enumerate(SETTINGS[:5])
    ]
    assert series(found.figure, 1, "published") == [(0, 85.2), (0.05, 86.08), (0.1, 86.69)]
    assert any("gamma 0.3 and 0.5 are the same" in note for note in found.notes)


def test_published_thresholds_are_not_drawn_beside_other_data(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tested(_: PaperRequest, __: str, runs: Sequence[FigureRun]) -> list[tuple[RunResult, ...]]:
        return [(result(dice=None),) if "0.8" in run.title else (result(),) for run in runs]

    monkeypatch.setattr(figures_thresholds, "tested_runs", tested)
    found = thresholds(ask(), "")
    assert found.rows[0]["published"] == 84.93
    assert {bars.get_label() for bars in found.figure.axes[0].containers} == {"ours"}
    assert [x for x, _ in series(found.figure, 0, "ours")] == [0.3, 0.5, 0.65, 0.95]
    left_atrium = thresholds(ask("la"), "la")
    assert {row["published"] for row in left_atrium.rows} == {None}


def test_thresholds_are_trained_and_tested(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_thresholds, "SETTINGS", [SETTINGS[2], SETTINGS[7]])
    shown = paper_content("thresholds", ask())
    gamma, beta = shown.values["rows"]
    assert gamma["dice"] == beta["dice"] is not None
    assert Path(shown.values["file"]).exists()
