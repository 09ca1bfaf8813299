"""A best checkpoint that was chosen on the test cases is known by its mark wherever it is shown."""

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from samples import write_balls

from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import read_evaluation
from tracoco.files import read_json
from tracoco.inference.predict import predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project, write_origin
from tracoco.project.prepare import prepare
from tracoco.project.store import StoredCase
from tracoco.reporting.comparison import compare_runs
from tracoco.reporting.page import write_report
from tracoco.reporting.tables import comparison_table, score_table
from tracoco.runs.folder import CHOSEN_ON_TEST
from tracoco.runs.log import read_log
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.train import train

SHORT = ["training.steps=2", "network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]"]
BEST, LAST = Path("predictions/chosen"), Path("predictions/test")


@dataclass(frozen=True)
class Shown:
    """A run, both of its checkpoints evaluated on the test cases, and what was said of it."""

    run: Path
    said: str

    def marks(self, name: str | Path) -> int:
        """How often a file carries the mark."""
        return (self.run / name).read_text(encoding="utf-8").count(CHOSEN_ON_TEST)


def show(project: Project, select_on: str) -> Shown:
    run, said = project.runs_root / select_on, io.StringIO()
    config = load_config(None, [*SHORT, f"training.select_on={select_on}"])
    console = Console(file=said, force_terminal=True, width=300)
    train(project, config, run, device="cpu", console=console)
    for checkpoint, folder in (("best", BEST), ("last", LAST)):
        predict_scans(run, project.root, run / folder, checkpoint=checkpoint, device="cpu")
        evaluate_predictions(run / folder, project.root)
    write_report(run)
    return Shown(run, said.getvalue())


def text(table: Table) -> str:
    file = io.StringIO()
    Console(width=300, file=file).print(table)
    return file.getvalue()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A prepared project of 2 labelled, 2 unlabelled, 1 validation and 2 test cases."""
    root = tmp_path_factory.mktemp("kept")
    data = write_balls(root / "data", labelled=5, unlabelled=2)
    project = init_project(data, root / "project", validation=1, test=2)
    prepare(project)
    return project


@pytest.fixture(scope="module")
def on_test(kept: Project) -> Shown:
    return show(kept, "test")


@pytest.fixture(scope="module")
def on_validation(kept: Project) -> Shown:
    return show(kept, "validation")


def test_predictions_and_scores_of_best_are_marked_and_those_of_last_are_not(
    on_test: Shown,
) -> None:
    for file in ("predictions.json", "scores.json"):
        assert on_test.marks(BEST / file) == 1
        assert on_test.marks(LAST / file) == 0
    assert Predictor.load(on_test.run, checkpoint="best", device="cpu").watermark == CHOSEN_ON_TEST
    assert Predictor.load(on_test.run, checkpoint="last", device="cpu").watermark == ""


def test_the_table_of_scores_is_marked(on_test: Shown) -> None:
    best, last = (read_evaluation(on_test.run / folder / "scores.json") for folder in (BEST, LAST))
    assert CHOSEN_ON_TEST in text(score_table(best))
    assert CHOSEN_ON_TEST not in text(score_table(last))


def test_the_row_of_a_comparison_is_marked(on_test: Shown) -> None:
    rows = compare_runs([on_test.run])
    marked = {row.checkpoint: CHOSEN_ON_TEST in row.note for row in rows}
    assert marked == {"best": True, "last": False}
    assert CHOSEN_ON_TEST in text(comparison_table(rows))


def test_the_report_says_it_on_top_and_at_the_tables(on_test: Shown) -> None:
    page = (on_test.run / "report.html").read_text(encoding="utf-8")
    top, rest = page.split('id="curves"', maxsplit=1)
    # For the run, and for the scores of `best`.
    assert top.count(CHOSEN_ON_TEST) == 2
    curve, scores = rest.split('id="scores"', maxsplit=1)
    assert CHOSEN_ON_TEST in curve
    assert "validation Dice" not in curve
    assert scores.count(f'<p class="flag">{CHOSEN_ON_TEST}</p>') == 2  # means, and cases


def test_a_report_that_shows_only_the_last_checkpoint_still_says_it(
    kept: Project, tmp_path: Path
) -> None:
    config = load_config(None, [*SHORT, "training.select_on=test"])
    train(kept, config, tmp_path / "run", device="cpu")
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert CHOSEN_ON_TEST in page.split('id="curves"', maxsplit=1)[0]


def test_progress_facts_and_log_name_the_test_cases(on_test: Shown) -> None:
    assert CHOSEN_ON_TEST in on_test.said
    assert "test Dice" in on_test.said
    assert read_json(on_test.run / "facts.json")["select_on"] == "test"
    last = read_log(on_test.run / "log.jsonl")[-1]
    assert last.test_dice is not None
    assert last.validation_dice is None


def test_a_run_that_chooses_on_validation_cases_is_marked_nowhere(on_validation: Shown) -> None:
    files = [
        path.relative_to(on_validation.run)
        for path in on_validation.run.rglob("*")
        if path.suffix in {".json", ".html", ".yaml", ".jsonl"}
    ]
    assert {"report.html", "facts.json", "predictions/chosen/scores.json"} <= set(map(str, files))
    assert [file for file in files if on_validation.marks(file)] == []
    assert CHOSEN_ON_TEST not in on_validation.said
    assert "validation Dice" in on_validation.said
    rows = compare_runs([on_validation.run])
    assert CHOSEN_ON_TEST not in text(comparison_table(rows))
    assert Predictor.load(on_validation.run, checkpoint="best", device="cpu").watermark == ""


@pytest.mark.parametrize("select_on", ["validation", "test"])
def test_the_cases_that_choose_are_the_ones_that_were_asked_for(
    kept: Project, monkeypatch: pytest.MonkeyPatch, select_on: str
) -> None:
    config = load_config(None, [*SHORT, f"training.select_on={select_on}"])
    experiment, process = Experiment.of(kept, config), Process(0, 1, torch.device("cpu"))
    opened: list[str] = []
    label = StoredCase.label

    def noted(case: StoredCase) -> NDArray[np.uint8]:
        opened.append(case.id)
        return label(case)

    monkeypatch.setattr(StoredCase, "label", noted)
    validate = experiment.validation(process)
    assert validate is not None
    validate(experiment.method(process))
    assert tuple(opened) == getattr(kept.load_splits(), select_on)


def test_test_cases_that_do_not_exist_or_are_not_stored_cannot_choose(
    kept: Project, project: Project, tmp_path: Path
) -> None:
    config = load_config(None, [*SHORT, "training.select_on=test"])
    with pytest.raises(UserError, match=r"splits\.json has no test cases"):
        train(project, config, tmp_path / "run", device="cpu")
    facts = kept.store_root / f"{kept.load_splits().test[1]}.json"
    gone = facts.rename(facts.with_suffix(".gone"))
    try:
        with pytest.raises(UserError, match=f"'{facts.stem}' is not prepared"):
            train(kept, config, tmp_path / "run", device="cpu")
    finally:
        gone.rename(facts)
    assert not (tmp_path / "run").exists()


def test_what_must_be_said_of_the_data_stands_by_every_result(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=5, unlabelled=2)
    project = init_project(data, tmp_path / "project", validation=1, test=1)
    prepare(project)
    origin = replace(project.load_origin(), watermark="scans were cropped around the truth")
    write_origin(project.origin_file, origin)
    shown = show(project, "test")
    assert "cropped around the truth" in shown.said
    for name, both in ((LAST, False), (BEST, True)):
        for file in ("predictions.json", "scores.json"):
            mark = json.loads((shown.run / name / file).read_text())["watermark"]
            assert "cropped around the truth" in mark
            assert (CHOSEN_ON_TEST in mark) is both
    assert "cropped around the truth" in (shown.run / "report.html").read_text(encoding="utf-8")
    assert all("cropped around" in row.note for row in compare_runs([shown.run]))
