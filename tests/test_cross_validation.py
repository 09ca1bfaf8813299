"""Cross-validation from the first scan to the table: a run for each fold, all scored as one."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from samples import make_project
from started_runs import SHORT
from typer.testing import CliRunner

import tracoco as tc
from tracoco.cli import app
from tracoco.cluster.submit import Request
from tracoco.errors import UserError
from tracoco.evaluation.bootstrap import grouped_interval
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import read_json
from tracoco.project.folder import Project
from tracoco.project.splits import write_splits
from tracoco.reporting.run_record import RunRecord, read_scores
from tracoco.runs.folder import Checkpoint, RunFolder, load_checkpoint, save_checkpoint
from tracoco.training.trainer import Trainer

SETTINGS = [*SHORT, "training.steps=2", "training.validate_every=1"]
FOLDS = (("case000", "case001", "case002"), ("case003", "case004", "case005"))


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of 6 labelled cases in 2 folds and a test case, with a run of each fold."""
    root = tmp_path_factory.mktemp("folds")
    project = make_project(root, labelled=7, unlabelled=2, validation=0, test=0)
    splits = project.load_splits()
    kept = tuple(id_ for id_ in splits.labelled if id_ != "case006")
    write_splits(
        project.splits_file, replace(splits, labelled=kept, test=("case006",), folds=FOLDS)
    )
    for fold in (1, 2):
        trained(project, fold)
    return project


def trained(project: Project, fold: int | None, **options: object) -> tc.Run:
    chosen = {"settings": SETTINGS, "method": "mean-teacher", "device": "cpu", "progress": False}
    return tc.train(project, fold=fold, **(chosen | options))  # type: ignore[arg-type]  # as given


def runs(project: Project) -> list[Path]:
    return [project.runs_root / f"mean-teacher-seed0-fold{fold}" for fold in (1, 2)]


@pytest.fixture
def copied(folds: Project, tmp_path: Path) -> Project:
    """The same project, to be changed."""
    return Project(Path(copytree(folds.root, tmp_path / "project")))


def test_a_run_of_a_fold_learns_from_the_other_folds_alone(folds: Project) -> None:
    for number, run in enumerate(runs(folds), start=1):
        folder = RunFolder(run)
        splits = folder.splits()
        assert folder.config().data.fold == number
        assert splits.labelled == FOLDS[2 - number]
        assert splits.validation == splits.held_out(number) == FOLDS[number - 1]
        assert splits.unlabelled == ("case007", "case008")
        assert splits.test == ("case006",)
        assert folder.checkpoint("best").is_file()  # chosen on the fold
        assert RunRecord.read(run).fold == f"fold {number} of 2 held out"


def test_the_cases_of_a_fold_do_not_choose_the_last_weights(
    copied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(trainer: Trainer, validate: object) -> tuple[None, int]:
        asked.append((trainer.folder.name, validate is not None))
        return None, 0

    monkeypatch.setattr(Trainer, "_keep_the_better", noted)
    trained(copied, 1, out=copied.root / "fold")
    splits = copied.load_splits()
    kept = replace(splits, labelled=splits.labelled[1:], validation=splits.labelled[:1])
    write_splits(copied.splits_file, replace(kept, folds=(FOLDS[0][1:], FOLDS[1])))
    nested = trained(copied, 1, out=copied.root / "nested")
    assert asked == [("fold", False), ("nested", True)]  # case000 is in no fold there
    splits = RunFolder(nested.folder).splits()
    assert (splits.labelled, splits.validation) == (FOLDS[1], FOLDS[0][:1])


def test_the_report_of_a_run_tells_its_fold(folds: Project) -> None:
    page = tc.report(runs(folds)[1]).read_text()
    assert "fold 2 of 2 held out" in page
    (row,) = tc.compare([runs(folds)[0]]).rows[:1]
    assert "fold 1 of 2 held out" in row.note


def test_a_run_that_broke_off_goes_on_exactly_and_with_its_own_fold_alone(
    copied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copied.root / "broken"

    def broken(path: Path, checkpoint: Checkpoint) -> None:
        save_checkpoint(path, checkpoint)
        if path.name == "last.pt":
            raise RuntimeError("broken off")

    with monkeypatch.context() as patch:
        patch.setattr("tracoco.training.trainer.save_checkpoint", broken)
        with pytest.raises(RuntimeError, match="broken off"):
            trained(copied, 1, out=out)
    assert load_checkpoint(out / "last.pt")["step"] == 1
    for fold in (2, None):
        with pytest.raises(UserError, match=r"saved with other data settings: {'fold': 1}"):
            trained(copied, fold, out=out, resume=True)
    assert trained(copied, 1, out=out, resume=True).steps == 2
    whole = load_checkpoint(runs(copied)[0] / "last.pt")["method"]
    resumed = load_checkpoint(out / "last.pt")["method"]
    assert all(whole[name].equal(resumed[name]) for name in whole)
    assert RunFolder(out).splits() == RunFolder(runs(copied)[0]).splits()


def test_all_cases_are_scored_once_by_the_run_that_held_them_out(copied: Project) -> None:
    found = tc.cross_validate(copied, device="cpu", progress=False)
    assert [(row.fold, row.cases) for row in found.rows] == [(1, 3), (2, 3)]
    assert (found.all.fold, found.all.cases) == (None, 6)
    assert found.missing_folds == ()
    assert {case.case: case.fold for case in found.cases} == {
        id_: number for number, fold in enumerate(FOLDS, start=1) for id_ in fold
    }
    by_hand = [case.dice for case in found.cases if case.dice is not None]
    assert found.all.dice == pytest.approx(np.mean(by_hand))
    assert None not in (found.all.low, found.all.high)
    assert min(by_hand) <= found.all.low <= found.all.dice <= found.all.high <= max(by_hand)  # type: ignore[operator]  # there are six patients
    assert found.rows[0].low is None  # of three patients
    assert found.remarks == ()
    scores = read_scores(runs(copied)[0] / "predictions" / "fold")
    assert scores.evaluation.case_ids == set(FOLDS[0])
    # Predictions of the same weights stay.
    file = runs(copied)[0] / "predictions" / "fold" / "case000.nii.gz"
    written = file.stat().st_mtime_ns
    again = tc.cross_validate(copied, runs(copied)[::-1], device="cpu", progress=False)
    assert again == found
    assert file.stat().st_mtime_ns == written


def test_the_command_prints_a_table_or_json_and_names_missing_folds(copied: Project) -> None:
    words = ["cross-validate", str(copied.root), str(runs(copied)[1]), "--device", "cpu"]
    shown = CliRunner().invoke(app, [*words, "--checkpoint", "best"], catch_exceptions=False)
    text = " ".join(shown.stdout.split())
    assert "warning: fold 1 has no run" in text
    assert "3 of the scored cases have names of validation cases" in text
    told = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    assert [(row["fold"], row["cases"]) for row in told["rows"]] == [(2, 3)]
    assert told["missing_folds"] == [1]
    assert told["all"]["cases"] == len(told["cases"]) == 3


def test_what_makes_runs_unlike_is_told(copied: Project) -> None:
    first, second = runs(copied)
    splits = copied.load_splits()
    moved = (FOLDS[0][:2], (*FOLDS[1], FOLDS[0][2]))
    write_splits(copied.splits_file, replace(splits, folds=moved))
    config = second / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 3", 1))
    remarks = "\n".join(tc.cross_validate(copied, device="cpu", progress=False).remarks)
    assert f"{second.name}: fold 2 of the project has changed since this run" in remarks
    assert f"{second.name}: 1 of the scored cases have names of labelled training" in remarks
    assert f"{second.name} has other settings than {first.name}: seed" in remarks


def test_runs_that_are_no_cross_validation_are_refused(copied: Project) -> None:
    first = runs(copied)[0]
    with pytest.raises(UserError, match=r"both held out fold 1; name the runs of one"):
        tc.cross_validate(copied, [first, first], progress=False)
    other = trained(copied, None)
    with pytest.raises(UserError, match="held out no fold; give runs of"):
        tc.cross_validate(copied, [other], progress=False)
    with pytest.raises(UserError, match="held out no fold; train one with --fold"):
        tc.predict(other, copied, copied.root / "out", part="fold", progress=False)
    with pytest.raises(UserError, match="fold 3 does not exist"):
        trained(copied, 3)
    write_splits(copied.splits_file, replace(copied.load_splits(), folds=()))
    with pytest.raises(UserError, match="has no folds; deal them with"):
        trained(copied, 1)


def test_runs_of_folds_predict_together(folds: Project, tmp_path: Path) -> None:
    first, second = runs(folds)
    tc.predict(first, folds, tmp_path / "a", others=[second], device="cpu", progress=False)
    evaluation = evaluate_predictions(tmp_path / "a", folds.root)
    assert evaluation.case_ids == {"case006"}
    manifest = read_json(tmp_path / "a" / "predictions.json")
    assert f"mean with {second.absolute()}" in manifest["variant"]
    with pytest.raises(UserError, match="the other runs have learnt from these cases"):
        tc.predict(first, folds, tmp_path / "b", others=[second], part="fold", progress=False)


def test_a_fold_that_is_predicted_for_one_half_is_no_shorter_table(copied: Project) -> None:
    out = copied.root / "out"
    tc.predict(runs(copied)[0], copied, out, part="fold", device="cpu", progress=False)
    (out / "case001.nii.gz").unlink()
    with pytest.raises(UserError, match="has no 'case001'; predict it first"):
        evaluate_predictions(out, copied.root)


def test_an_interval_over_groups_is_wider_where_groups_are_alike() -> None:
    values = [90.0, 90, 80, 80, 70, 70, 60, 60]
    alone = grouped_interval(values, list("abcdefgh"))
    pairs = grouped_interval(values, list("aabbccdd"))
    assert alone.mean == pairs.mean == 75
    assert pairs.high - pairs.low > 1.2 * (alone.high - alone.low)
    assert 60 <= pairs.low < alone.low < 75 < alone.high < pairs.high <= 90


def test_an_array_of_jobs_trains_all_folds() -> None:
    request = Request(("train", "heart"), Path("jobs"), seeds=(0, 1), folds=(1, 2))
    assert [" ".join(words) for words in request.commands()] == [
        "train heart --fold 1 --seed 0",
        "train heart --fold 2 --seed 0",
        "train heart --fold 1 --seed 1",
        "train heart --fold 2 --seed 1",
    ]
    for words, message in [
        (("train", "heart", "--fold", "1"), "--fold and --folds do not go together"),
        (("train", "heart", "-o", "a"), "-o and --folds do not go together"),
        (("benchmark", "grid.yaml"), "--folds is for `train`"),
    ]:
        with pytest.raises(UserError, match=message):
            Request(words, Path("jobs"), folds=(1, 2)).commands()
    printed = CliRunner().invoke(
        app, ["submit", "train", "heart", "--folds", "1,2", "--local", "1", "--dry-run"]
    )
    assert printed.stdout.splitlines() == [
        "tracoco train heart --fold 1",
        "tracoco train heart --fold 2",
    ]
