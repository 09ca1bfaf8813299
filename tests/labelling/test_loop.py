"""The loop: next scans, corrected labels, another training, and what may not happen to labels."""

import json
from pathlib import Path
from shutil import copyfile
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from labelling.conftest import SETTINGS, draw

import tracoco as tc
from tracoco.labelling.next_scans import ONE_NETWORK
from tracoco.labelling.rounds import newest_run, read_rounds
from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder
from tracoco.training.trainer import Trainer


def contents(root: Path) -> dict[str, bytes]:
    """What must not change."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".tracoco-lock")
    return {str(path): path.read_bytes() for path in sorted(files)}


def test_next_correct_update_train_next(labelled_project: Project, run: tc.Run) -> None:
    project = labelled_project
    before = project.load_splits()
    chosen = tc.next_scans(project, run, count=2, progress=False)
    assert len(chosen.rows) == 2
    assert chosen.unlabelled == 4
    assert chosen.notes == ()
    for row in chosen.rows:
        assert f">{row.choice.case}</td>" in chosen._repr_html_()
        assert row.choice.case in before.unlabelled
        assert row.draft == project.root / "drafts" / f"{row.choice.case}.nii.gz"
        assert row.draft.is_file()
        assert row.choice.disagreement is not None
        assert "the two networks differ by" in row.choice.why
    scores = (run.folder / "predictions" / "unlabelled" / "predictions.json").read_bytes()
    assert tc.next_scans(project, run, count=2, progress=False) == chosen
    assert (run.folder / "predictions" / "unlabelled" / "predictions.json").read_bytes() == scores

    first, second = (row.choice.case for row in chosen.rows)
    draw(chosen.rows[0].draft)
    result = tc.update(
        project, labels=chosen.folder, train=True, settings={"training.steps": 2}, progress=False
    )
    assert result.labels.added == (first,)
    assert result.labels.drafts == (second,)  # nobody has looked at it
    splits = project.load_splits()
    assert splits.labelled == (*before.labelled, first)
    assert first not in splits.unlabelled
    assert (splits.validation, splits.test) == (before.validation, before.test)
    taken = next(case.label for case in project.load_cases() if case.id == first)
    assert taken == project.root / "labelling" / "labels" / "001" / f"{first}.nii.gz"

    assert result.run is not None
    assert (result.run.steps, result.run.folder) == (2, project.runs_root / "tracoco-round1")
    started = RunFolder(result.run.folder).facts().init_from
    assert started is not None
    assert (started.run, started.step) == (str(run.folder), 4)
    assert RunFolder(result.run.folder).splits().labelled == splits.labelled
    (done,) = read_rounds(project)
    assert result.round == done
    assert (done.added, done.labelled, done.part) == ((first,), 3, "validation")
    assert done.finished
    assert {*(done.before or ())} == {*(done.after or ())} == {*splits.validation}
    assert newest_run(project) == result.run.folder

    third = tc.next_scans(project, result.run, count=3, progress=False)
    assert {row.choice.case for row in third.rows} == set(splits.unlabelled)


def test_drafts_that_somebody_changed_stay_and_others_go(
    labelled_project: Project, run: tc.Run
) -> None:
    project = labelled_project
    chosen = tc.next_scans(project, run, count=4, progress=False)
    changed = draw(chosen.rows[3].draft)
    content = changed.read_bytes()
    fewer = tc.next_scans(project, run, count=1, progress=False)
    there = {path.name for path in chosen.folder.iterdir()}
    assert there == {"drafts.json", changed.name, fewer.rows[0].draft.name}
    assert changed.read_bytes() == content
    again = tc.next_scans(project, run, count=4, progress=False)
    assert [row.kept for row in again.rows] == [False, False, False, True]
    assert changed.read_bytes() == content
    result = tc.update(project, labels=chosen.folder, progress=False)
    assert result.labels.added == (changed.name.removesuffix(".nii.gz"),)
    everything = tc.update(project, labels=chosen.folder, accept_drafts=True, progress=False)
    assert len(everything.labels.added) == 3
    assert everything.labels.unchanged == result.labels.added
    (waiting,) = read_rounds(project)  # one round: nothing was trained in between
    assert len(waiting.added) == 4
    assert not waiting.run


def test_a_label_can_be_corrected_again(labelled_project: Project) -> None:
    project, folder = labelled_project, labelled_project.root / "mine"
    folder.mkdir()
    case = next(each for each in project.load_cases() if each.id in project.load_splits().labelled)
    assert case.label is not None
    original = case.label.read_bytes()
    draw(Path(copyfile(case.label, folder / case.label.name)))
    result = tc.update(project, labels=folder, progress=False)
    assert result.labels.corrected == (case.id,)
    assert case.label.read_bytes() == original  # nothing is lost
    again = tc.update(project, labels=folder, progress=False)
    assert again.labels.unchanged == (case.id,)
    assert again.round is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("unknown", r"is of no scan of .*, which has no 'case999' but case000, case001"),
        ("test", "is of the test case"),
        ("validation", "is of the validation case"),
        (
            "values",
            r"has the label values 7, which the project does not know; it has 0 \(background",
        ),
        ("grid", "has the shape"),
        ("bomb", "which is no part of its image"),
        ("text", "cannot be read|not a gzip|no NIfTI|damaged|is not"),
    ],
)
def test_labels_that_cannot_be_taken_change_nothing(
    labelled_project: Project, kind: str, message: str
) -> None:
    project, folder = labelled_project, labelled_project.root.parent / "mine"
    folder.mkdir()
    splits = project.load_splits()
    part = splits.parts[kind if kind in splits.parts else "unlabelled"]
    case = "case999" if kind == "unknown" else part[0]
    good = next(id_ for id_ in splits.unlabelled if id_ != case)
    image = project.load_cases()[0].images[0]
    for name in (case, good):
        draw(Path(copyfile(image, folder / f"{name}.nii.gz")), value=7 if kind == "values" else 1)
    if kind == "grid":
        small = nib.Nifti1Image(np.ones((5, 5, 5), np.uint8), np.eye(4))
        nib.save(small, folder / f"{case}.nii.gz")
    if kind == "bomb":  # a header that declares far more voxels than the image has
        large = nib.Nifti1Image(np.zeros((300, 300, 300), np.uint8), np.eye(4))
        nib.save(large, folder / f"{case}.nii.gz")
    if kind == "text":
        (folder / f"{case}.nii.gz").write_text("no label")
    before = contents(project.root)
    with pytest.raises(tc.UserError, match=message):
        tc.update(project, labels=folder, train=True, progress=False)
    assert contents(project.root) == before


def test_update_says_when_there_is_nothing_to_do(labelled_project: Project, run: tc.Run) -> None:
    project = labelled_project
    with pytest.raises(tc.UserError, match="has no round of labelling to go on with"):
        tc.update(project, train=True, progress=False)
    empty = project.root.parent / "empty"
    empty.mkdir()
    with pytest.raises(tc.UserError, match="holds no label"):
        tc.update(project, labels=empty, progress=False)
    with pytest.raises(tc.UserError, match="is no folder"):
        tc.update(project, labels=empty / "none", progress=False)
    drafts = tc.next_scans(project, run, count=1, progress=False).folder
    with pytest.raises(tc.UserError, match="only drafts that nobody has changed"):
        tc.update(project, labels=drafts, train=True, progress=False)


def test_a_stopped_training_of_a_round_is_resumed(
    labelled_project: Project, run: tc.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = labelled_project
    drafts = tc.next_scans(project, run, count=1, progress=False)
    draw(drafts.rows[0].draft)
    fit = Trainer.fit

    def stopped(self: Trainer, batches: Any, logger: Any, stop: Any, *more: Any, **kw: Any) -> Any:
        stop.signal = 15
        return fit(self, batches, logger, stop, *more, **kw)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", stopped)
        result = tc.update(project, labels=drafts.folder, train=True, progress=False)
    assert result.run is not None
    assert result.run.signal == 15
    (waiting,) = read_rounds(project)
    assert not waiting.finished
    with pytest.raises(tc.UserError, match="is resumed with its own settings"):
        tc.update(project, train=True, settings=["training.steps=9"], progress=False)
    resumed = tc.update(project, train=True, progress=False)
    assert resumed.run is not None
    assert (resumed.run.steps, resumed.run.signal) == (4, 0)
    assert resumed.run.folder == result.run.folder
    (done,) = read_rounds(project)
    assert done.finished


def test_one_network_is_ranked_by_entropy_and_says_so(labelled_project: Project) -> None:
    run = tc.train(labelled_project, method="supervised", settings=SETTINGS, progress=False)
    chosen = tc.next_scans(labelled_project, run, count=9, progress=False)
    assert chosen.notes == (ONE_NETWORK, "there are no more than 4 unlabelled scans")
    assert all(row.choice.disagreement is None for row in chosen.rows)
    assert json.dumps([row.to_json() for row in chosen.rows])


def test_a_run_with_other_classes_is_refused(labelled_project: Project, run: tc.Run) -> None:
    plan = run.folder / "plan.yaml"
    text = plan.read_text(encoding="utf-8").replace("label_values: [0, 1]", "label_values: [0, 4]")
    plan.write_text(text, encoding="utf-8")
    with pytest.raises(tc.UserError, match=r"predicts the label values \[0, 4\]"):
        tc.next_scans(labelled_project, run, progress=False)
