import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import write_balls, write_scan

from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import read_json, write_json
from tracoco.inference.predict import predict_scans
from tracoco.inference.prediction import Prediction
from tracoco.inference.predictor import Predictor
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.scans.reader import read_label
from tracoco.scans.scan import Scan


def images(project: Project) -> Path:
    return project.load_cases()[0].images[0].parent


@pytest.mark.parametrize("whole_folder", [True, False])
def test_a_scan_is_never_written_over(run: Path, project: Project, *, whole_folder: bool) -> None:
    scan = images(project) / "case000.nii.gz"
    before = scan.read_bytes()
    source = scan.parent if whole_folder else scan
    with pytest.raises(UserError, match="is no prediction of tracoco"):
        predict_scans(run, source, source, device="cpu")
    assert scan.read_bytes() == before


def test_labels_drawn_by_hand_are_never_written_over(run: Path, project: Project) -> None:
    labels = images(project).parent / "labels"
    before = {path: path.read_bytes() for path in labels.iterdir()}
    with pytest.raises(UserError, match="is no prediction of tracoco"):
        predict_scans(run, images(project), labels, device="cpu")
    assert {path: path.read_bytes() for path in labels.iterdir()} == before


def test_predictions_can_be_made_again_and_more_be_added(
    run: Path, project: Project, tmp_path: Path
) -> None:
    for name in ("case000", "case001", "case000"):
        predict_scans(run, images(project) / f"{name}.nii.gz", tmp_path / "out", device="cpu")
    note = json.loads((tmp_path / "out" / "predictions.json").read_text(encoding="utf-8"))
    assert [row["case"] for row in note["rows"]] == ["case000", "case001"]
    assert (note["checkpoint"], note["labels"]) == ("last", {"1": "label 1"})


def test_all_bad_scans_are_named_before_the_first_is_predicted(run: Path, tmp_path: Path) -> None:
    write_scan(tmp_path / "in" / "a.nii.gz", np.zeros((16, 16, 16), dtype=np.float32))
    write_scan(tmp_path / "in" / "b.nii.gz", np.zeros((16, 16, 16, 2), dtype=np.float32))
    (tmp_path / "in" / "c.nii.gz").write_bytes(b"no scan")
    with pytest.raises(UserError, match="2 problems") as caught:
        predict_scans(run, tmp_path / "in", tmp_path / "out", device="cpu")
    assert all(name in str(caught.value) for name in ("b.nii.gz", "c.nii.gz"))
    assert not (tmp_path / "out").exists()


def test_a_project_stands_for_its_test_cases(run: Path, tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=1)
    kept = init_project(data, tmp_path / "kept", test=2)
    predict_scans(run, kept.root, tmp_path / "out", device="cpu")
    predicted = {path.name.removesuffix(".nii.gz") for path in (tmp_path / "out").glob("*.nii.gz")}
    assert predicted == set(kept.load_splits().test)
    result = evaluate_predictions(tmp_path / "out", kept.root)
    assert {row.case for row in result.rows} == predicted
    none = init_project(data, tmp_path / "none")
    with pytest.raises(UserError, match="has no test cases"):
        predict_scans(run, none.root, tmp_path / "other", device="cpu")


def test_an_interrupted_prediction_can_be_made_again(
    run: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Prediction.write
    done: list[Path] = []

    def interrupted(prediction: Prediction, path: Path) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(path)
        write(prediction, path)

    with monkeypatch.context() as patch:
        patch.setattr(Prediction, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            predict_scans(run, images(project), tmp_path / "out", device="cpu")
    assert len(list((tmp_path / "out").glob("*.nii.gz"))) == 1
    assert len(predict_scans(run, images(project), tmp_path / "out", device="cpu")) == 8


def test_predictions_of_two_runs_do_not_mix(run: Path, project: Project, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("case000", "case001"):
        predict_scans(run, images(project) / f"{name}.nii.gz", out, device="cpu")
    single = images(project) / "case000.nii.gz"
    with pytest.raises(UserError, match=r"case001\.nii\.gz is a prediction of"):
        predict_scans(run, single, out, checkpoint="best", device="cpu")
    with pytest.raises(UserError, match=r"case001\.nii\.gz is a prediction of"):
        predict_scans(run, single, out, checkpoint="best", redo=True, device="cpu")
    (out / "case001.nii.gz").unlink()
    predict_scans(run, single, out, checkpoint="best", redo=True, device="cpu")


def test_new_predictions_do_not_keep_old_scores(
    run: Path, project: Project, tmp_path: Path
) -> None:
    out, labels = tmp_path / "out", images(project).parent / "labels"
    single = images(project) / "case000.nii.gz"
    truth = tmp_path / "truth"
    truth.mkdir()
    (truth / "case000.nii.gz").write_bytes((labels / "case000.nii.gz").read_bytes())
    predict_scans(run, single, out, device="cpu")
    evaluate_predictions(out, truth)
    predict_scans(run, single, out, device="cpu")
    assert (out / "scores.json").exists()  # nothing was predicted anew
    predict_scans(run, single, out, redo=True, device="cpu")
    assert not (out / "scores.json").exists()


@pytest.mark.parametrize("cct", [False, True])
def test_specks_are_removed_where_it_is_asked_for_and_the_note_says_so(
    run: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cct: bool
) -> None:
    predict = Predictor.__call__

    def speckled(predictor: Predictor, scan: Scan, **wanted: Any) -> Prediction:
        found = predict(predictor, scan, **wanted)
        found.label[2:8, 2:8, 2:8] = 1
        found.label[25, 23, 19] = 1
        return found

    monkeypatch.setattr(Predictor, "__call__", speckled)
    image = images(project) / "case000.nii.gz"
    predict_scans(run, image, tmp_path / "out", cct=cct, device="cpu")
    label = read_label(tmp_path / "out" / "case000.nii.gz").array
    # 26 x 24 x 20 voxels over 1500 are 8.3: a single voxel is a speck.
    assert label[25, 23, 19] == (0 if cct else 1)
    assert label[2:8, 2:8, 2:8].all()
    note = json.loads((tmp_path / "out" / "predictions.json").read_text(encoding="utf-8"))
    assert (note["cct"], note["watermark"]) == (cct, "")


def test_cleaned_predictions_do_not_mix_with_others(
    run: Path, project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_scans(run, images(project) / "case000.nii.gz", out, device="cpu")
    with pytest.raises(UserError, match=r"checkpoint last and without --cct; choose another OUT"):
        predict_scans(run, images(project) / "case001.nii.gz", out, cct=True, device="cpu")


def test_a_folder_of_before_there_was_cct_is_gone_on_with(
    run: Path, project: Project, tmp_path: Path
) -> None:
    note = tmp_path / "out" / "predictions.json"
    predict_scans(run, images(project) / "case000.nii.gz", note.parent, device="cpu")
    values = read_json(note)
    del values["cct"]
    write_json(note, values)
    predict_scans(run, images(project) / "case001.nii.gz", note.parent, device="cpu")
    assert len(read_json(note)["rows"]) == 2


def test_the_note_says_how_long_each_case_took(
    run: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = Predictor.__call__

    def slow(predictor: Predictor, scan: Scan, **wanted: Any) -> Prediction:
        time.sleep(0.2)
        return predict(predictor, scan, **wanted)

    monkeypatch.setattr(Predictor, "__call__", slow)
    out = tmp_path / "out"
    for name in ("case000", "case001"):
        (case,) = predict_scans(run, images(project) / f"{name}.nii.gz", out, device="cpu")
    first, second = read_json(out / "predictions.json")["rows"]
    assert 0.2 < first["seconds"] < 20
    assert second["seconds"] == case.seconds
