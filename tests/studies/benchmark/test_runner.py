"""A run of a grid is brought to its end from whatever state it is in, and never made twice."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from samples import make_project

from tracoco.errors import Stopped, UserError
from tracoco.evaluation.scores import Protocol
from tracoco.files import digest
from tracoco.inference.predictor import Predictor
from tracoco.project.case_statistics import CaseStatistics
from tracoco.project.fingerprint import Fingerprint, LabelValue
from tracoco.project.planner import make_plan
from tracoco.project.splits import write_splits
from tracoco.project.store import Store
from tracoco.studies.benchmark import runner as runner_module
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.results import RunResult, over_seeds, read_result
from tracoco.studies.benchmark.runner import Runner, Scoring, steps_done
from tracoco.training.fit_result import FitResult
from tracoco.training.train import train

SMALL = RunSpec(
    None,
    (
        "network.filters=4",
        "data.crop=[16, 16, 8]",
        "data.workers=0",
        "training.steps=2",
        "data.labelled=2",
    ),
)


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A project with one finished run."""
    project = make_project(tmp_path_factory.mktemp("grid"), labelled=6, unlabelled=2, test=2)
    runner = Runner(project, "balls", project.root / "grid", device="cpu")
    runner.result(SMALL, 0, Scoring())
    return runner


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("nothing was to be done")


def test_a_result_says_what_was_run_and_what_came_of_it(tested: Runner) -> None:
    result = tested.result(SMALL, 0, Scoring())
    assert (result.dataset, result.method, result.seed, result.steps) == ("balls", "tracoco", 0, 2)
    assert (result.labelled, result.unlabelled, result.cases) == (2, 3, 2)
    assert (result.units, result.empty, result.cct, result.watermark) == ("mm", "missed", False, "")
    assert result.dice is not None
    assert 0 <= result.dice <= 100
    assert result.seconds_a_step > 0
    assert result.seconds_a_case > 0
    assert result.peak_mb is None or result.peak_mb > 50  # torch alone takes more
    assert result.versions["torch"]


def test_a_finished_run_is_neither_trained_nor_predicted_nor_scored_again(
    tested: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train", "predict_scans", "score_predictions", "evaluate_predictions"):
        monkeypatch.setattr(runner_module, name, forbidden)
    assert tested.result(SMALL, 0, Scoring()).steps == 2


def test_plan_settings_for_imported_networks_leave_runs_where_they_were(tested: Runner) -> None:
    later, made = {"rescale", "resize_slices"}, tested.project.load_plan()
    assert later <= made.as_always
    plan = made.model_dump(mode="json", exclude={"class_names", *made.as_always})
    splits, store = tested.project.load_splits(), Store(tested.project.store_root)
    data = digest([splits.hash(), plan, store.hash()])
    assert tested.folder(SMALL, 0) == SMALL.folder(tested.root, 0, data, made)


def test_another_way_of_scoring_uses_the_same_predictions(
    tested: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "train", forbidden)
    monkeypatch.setattr(Predictor, "__call__", forbidden)  # the scans are compared, no more
    cleaned = tested.result(SMALL, 0, Scoring("last", Protocol(units="voxel", cct=True)))
    assert (cleaned.units, cleaned.cct) == ("voxel", True)
    assert tested.result(SMALL, 0, Scoring()).units == "mm"


def test_predictions_that_were_cut_short_are_made_again(tested: Runner) -> None:
    folder = tested.folder(SMALL, 0)
    note = folder / "predictions" / "last" / "predictions.json"
    values = json.loads(note.read_text())
    values["rows"][0]["seconds"] = None
    note.write_text(json.dumps(values))
    tested.predicted(folder, "last")
    rows = json.loads(note.read_text())["rows"]
    assert len(rows) == 2
    assert all(row["seconds"] is not None for row in rows)


def test_a_run_that_was_stopped_before_its_test_is_not_trained_again(
    tmp_path: Path, tested: Runner
) -> None:
    whole = tested.folder(SMALL, 0)
    runner = Runner(tested.project, "balls", tmp_path, device="cpu")
    spec = RunSpec(None, (*SMALL.changes, "training.save_every=1"))

    def killed(*words: Any, **settings: Any) -> FitResult:
        train(*words, **settings)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner_module, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            runner.result(spec, 0, Scoring())
    folder = runner.folder(spec, 0)
    assert steps_done(folder) == 2
    assert not (folder / "results").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner_module, "train", forbidden)
        dice = runner.result(spec, 0, Scoring()).dice
    assert dice == read_result(whole / "results" / "last-mm-missed.json").dice


def test_a_run_without_a_checkpoint_has_taken_no_step(tmp_path: Path, tested: Runner) -> None:
    copy = tmp_path / "run"
    shutil.copytree(tested.folder(SMALL, 0), copy)
    assert steps_done(copy) == 2
    (copy / "last.pt").unlink()  # the log is still there
    assert steps_done(copy) == 0


def test_a_stop_is_told_and_leaves_no_result(
    tmp_path: Path, tested: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "train", lambda *_, **__: FitResult(1, signal=15))
    runner = Runner(tested.project, "balls", tmp_path)
    with pytest.raises(Stopped, match="the same command goes on") as caught:
        runner.result(SMALL, 0, Scoring())
    assert caught.value.signal == 15
    assert not list(tmp_path.rglob("results"))


def test_folders_differ_by_settings_and_seed_but_not_by_workers(tmp_path: Path) -> None:
    base = SMALL.folder(tmp_path, 0)
    other = RunSpec(None, (*SMALL.changes, "optimizer.lr=0.01")).folder(tmp_path, 0)
    workers = RunSpec(None, (*SMALL.changes, "data.workers=3")).folder(tmp_path, 0)
    assert base.name.startswith("tracoco-2labels-")
    assert len({base, other, SMALL.folder(tmp_path, 1)}) == 3
    assert workers == base
    spelt_out = RunSpec(None, (*SMALL.changes, "method.gamma=0.65")).folder(tmp_path, 0)
    assert spelt_out == base


def test_mean_and_spread_over_seeds(tested: Runner) -> None:
    result = tested.result(SMALL, 0, Scoring())

    def scored(dice: float | None) -> RunResult:
        return replace(result, dice=dice)

    spread = over_seeds([scored(80.0), scored(90.0), scored(None)], "dice")
    assert spread is not None
    assert (spread.mean, spread.count) == (85.0, 2)
    assert spread.sd == pytest.approx(7.0711, abs=1e-4)
    alone = over_seeds([scored(80.0)], "dice")
    assert alone is not None
    assert alone.sd is None
    assert over_seeds([scored(None)], "dice") is None


def test_a_result_of_another_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"dice": 1}')
    with pytest.raises(UserError, match="another version"):
        read_result(tmp_path / "old.json")


def test_a_project_without_test_cases_is_told_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "train", forbidden)
    runner = Runner(make_project(tmp_path), "balls", tmp_path / "grid")
    with pytest.raises(UserError, match="has no test cases"):
        runner.result(SMALL, 0, Scoring())


def test_another_split_is_another_run(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=6, unlabelled=2, test=2)
    runner = Runner(project, "balls", tmp_path / "grid")
    before, splits = runner.folder(SMALL, 0), project.load_splits()
    assert runner.folder(SMALL, 0) == before
    (first, *labelled), (second, *test) = splits.labelled, splits.test
    swapped = replace(splits, labelled=(second, *labelled), test=(first, *test))
    write_splits(project.splits_file, swapped)
    assert runner.folder(SMALL, 0) != before


def test_a_mistake_is_told_before_anything_is_trained(tested: Runner) -> None:
    tested.check(SMALL)
    for change, message in (
        ("network.name=vnett", "vnett"),
        ("data.labelled=99", "99"),
        ("network.strides=[[2, 2, 3]]", "strides"),
        ("method.gama=1", "gamma"),
    ):
        with pytest.raises(UserError, match=message):
            tested.check(RunSpec(None, (*SMALL.changes, change)))


def test_what_a_run_leaves_to_the_plan_is_told_apart_from_what_it_says(tmp_path: Path) -> None:
    plain, narrow = RunSpec(None), RunSpec(None, ("network.filters=16", "training.steps=2000"))
    plan = make_plan(
        Fingerprint((CaseStatistics("a", (9, 9, 9), (1, 1, 1), 1),), (LabelValue(1, 1, 1),)),
        memory_gb=8,
        device="gpu",
    )
    assert plain.config(0, plan).training.steps == 15_000
    assert plain.folder(tmp_path, 0, "", plan) != narrow.folder(tmp_path, 0, "", plan)
    # With a plan of before both are what they were: runs are found again.
    old = plan.model_copy(update={"filters": None, "steps": None, "precision": None})
    assert plain.folder(tmp_path, 0, "", old) == narrow.folder(tmp_path, 0, "", old)
    assert plain.folder(tmp_path, 0) == plain.folder(tmp_path, 0, "", old)
