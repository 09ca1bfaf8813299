"""Predictions are of the scans and weights that the manifest names, and of no others."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from other_writer import in_another_thread
from samples import write_balls

from tracoco import files
from tracoco.errors import Stopped, UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import content_hash, read_json, scan_content, write_json
from tracoco.inference.predict import predict_scans
from tracoco.inference.prediction import Prediction
from tracoco.inference.predictor import Predictor
from tracoco.lock import only_writer
from tracoco.runs.folder import load_checkpoint, save_checkpoint
from tracoco.scans.scan import Scan


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_balls(tmp_path / "data", labelled=2, unlabelled=1)


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were predicted, in order."""
    names: list[str] = []
    write = Prediction.write

    def noted(prediction: Prediction, path: Path) -> None:
        names.append(path.name.removesuffix(".nii.gz"))
        write(prediction, path)

    monkeypatch.setattr(Prediction, "write", noted)
    return names


def test_the_manifest_holds_size_and_hash_of_scans_weights_and_labels(
    run: Path, data: Path, tmp_path: Path
) -> None:
    scan, out = data / "images" / "case000.nii.gz", tmp_path / "out"
    predict_scans(run, scan, out, device="cpu")
    note = read_json(out / "predictions.json")
    (row,) = note["rows"]
    assert note["weights"] == content_hash(run / "last.pt")
    (content,) = row["scans"]
    assert (content["bytes"], content["sha256"]) == (scan.stat().st_size, content_hash(scan))
    assert row["digests"] == {"case000.nii.gz": content_hash(out / "case000.nii.gz")}


def test_a_scan_that_was_replaced_under_its_name_is_predicted_anew(
    run: Path, data: Path, tmp_path: Path, predicted: list[str]
) -> None:
    images, out = data / "images", tmp_path / "out"
    predict_scans(run, images, out, device="cpu")
    before = (out / "case000.nii.gz").read_bytes()
    shutil.copy(images / "case001.nii.gz", images / "case000.nii.gz")
    predict_scans(run, images, out, device="cpu")
    assert predicted[3:] == ["case000"]
    assert (out / "case000.nii.gz").read_bytes() != before
    predict_scans(run, images, out, device="cpu")
    assert len(predicted) == 4


def test_weights_are_those_that_were_read_though_the_file_is_replaced_meanwhile(
    run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, load = shutil.copytree(run, tmp_path / "run"), Predictor.load
    used = content_hash(copy / "last.pt")

    def trained_on(*words: Any, **options: Any) -> Predictor:
        found = load(*words, **options)
        save_checkpoint(copy / "last.pt", {**load_checkpoint(copy / "last.pt"), "step": 99})
        return found

    monkeypatch.setattr(Predictor, "load", trained_on)
    predict_scans(copy, data / "images" / "case000.nii.gz", tmp_path / "out", device="cpu")
    assert read_json(tmp_path / "out" / "predictions.json")["weights"] == used


@pytest.mark.parametrize("redo", [False, True])
def test_a_label_that_was_changed_is_named_and_neither_kept_nor_replaced(
    run: Path, data: Path, tmp_path: Path, *, redo: bool
) -> None:
    images, out = data / "images", tmp_path / "out"
    predict_scans(run, images, out, device="cpu")
    shutil.copy(out / "case001.nii.gz", out / "case000.nii.gz")
    drawn = (out / "case000.nii.gz").read_bytes()
    changed = r"case000\.nii\.gz has changed since it was predicted"
    with pytest.raises(UserError, match=changed):
        predict_scans(run, images, out, redo=redo, device="cpu")
    with pytest.raises(UserError, match=changed):
        evaluate_predictions(out, data / "labels")
    assert (out / "case000.nii.gz").read_bytes() == drawn


def test_an_earlier_label_does_not_pass_for_one_whose_prediction_was_interrupted(
    run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, out = data / "images", tmp_path / "out"
    predict_scans(run, images, out, device="cpu")
    predict = Predictor.__call__

    def stopped(predictor: Predictor, scan: Scan, **wanted: Any) -> Prediction:
        os.kill(os.getpid(), signal.SIGUSR1)
        return predict(predictor, scan, **wanted)

    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "__call__", stopped)
        with pytest.raises(Stopped, match="the same command goes on") as caught:
            predict_scans(run, images, out, redo=True, device="cpu")
    assert caught.value.signal == signal.SIGUSR1
    assert (out / "case000.nii.gz").exists()
    with pytest.raises(UserError, match=r"case000\.nii\.gz was not finished"):
        evaluate_predictions(out, data / "labels")
    assert len(predict_scans(run, images, out, device="cpu")) == 3
    (out / "case002.nii.gz").unlink()  # it has no label
    evaluate_predictions(out, data / "labels")


def test_predictions_of_an_earlier_version_are_made_again(
    run: Path, data: Path, tmp_path: Path, predicted: list[str]
) -> None:
    scan, note = data / "images" / "case000.nii.gz", tmp_path / "out" / "predictions.json"
    predict_scans(run, scan, note.parent, device="cpu")
    values = read_json(note)
    for key in ("scans", "digests"):
        del values["rows"][0][key]
    write_json(note, values)
    predict_scans(run, scan, note.parent, device="cpu")
    assert predicted == ["case000", "case000"]


def test_a_folder_that_is_being_evaluated_or_predicted_into_is_refused(
    run: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_scans(run, data / "images", out, device="cpu")
    for shard in (None, (1, 2)):
        with in_another_thread(out), pytest.raises(UserError, match="is being written by"):
            predict_scans(run, data / "images", out, shard=shard, device="cpu")
    with in_another_thread(out), pytest.raises(UserError, match="is being written by"):
        evaluate_predictions(out, data / "labels")
    with only_writer(out, "report", of="report"):
        predict_scans(run, data / "images", out, device="cpu")


def test_a_hint_is_believed_only_where_it_would_tell_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.nii.gz"
    file.write_bytes(b"one")
    fresh = scan_content(file)
    assert fresh.stamp == ""  # it may change again within one tick of the clock
    later = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: later)
    known = scan_content(file)
    assert known.stamp
    assert known == fresh
    read: list[Path] = []

    def content(path: Path) -> str:
        read.append(path)
        return "new"

    monkeypatch.setattr(files, "content_of", content)
    assert scan_content(file, known) is known
    assert read == []
    at = file.stat()
    file.write_bytes(b"two")  # as long, in place, and with the old time
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert scan_content(file, known).sha256 == "new"


def test_of_a_scan_in_several_files_each_one_counts(tmp_path: Path) -> None:
    series = tmp_path / "series"
    series.mkdir()
    for name in ("1.dcm", "2.dcm"):
        (series / name).write_bytes(name.encode())
    before = scan_content(series)
    assert before.bytes == 10
    (series / "1.dcm").write_bytes(b"2.dcm")
    (series / "2.dcm").write_bytes(b"1.dcm")
    assert scan_content(series) != before
    header = tmp_path / "a.mhd"
    header.write_text("NDims = 3\nElementDataFile = other.raw\n")
    (tmp_path / "other.raw").write_bytes(b"old")
    known = scan_content(header)
    (tmp_path / "other.raw").write_bytes(b"new")
    assert scan_content(header) != known
