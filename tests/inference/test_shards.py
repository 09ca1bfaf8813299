"""Many machines, one folder; and going on where it was stopped."""

from pathlib import Path
from typing import Any

import pytest
from samples import write_balls

from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import read_json, write_json
from tracoco.inference.manifest import Manifest, merged_manifest
from tracoco.inference.predict import predict_scans
from tracoco.inference.prediction import Prediction
from tracoco.inference.predictor import Predictor
from tracoco.reporting.run_record import read_scores
from tracoco.runs.folder import load_checkpoint, save_checkpoint
from tracoco.scans.scan import Scan


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return write_balls(tmp_path / "data", labelled=5, unlabelled=0) / "images"


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


def test_shards_share_a_folder_and_are_read_as_one(
    run: Path, scans: Path, tmp_path: Path, predicted: list[str]
) -> None:
    out = tmp_path / "out"
    for part in (2, 1):
        predict_scans(run, scans, out, shard=(part, 2), device="cpu")
    assert predicted == ["case001", "case003", "case000", "case002", "case004"]
    notes = sorted(path.name for path in out.glob("*.json"))
    assert notes == ["predictions-1of2.json", "predictions-2of2.json"]
    rows = merged_manifest(out).rows
    assert [row.case for row in rows] == [f"case00{index}" for index in range(5)]
    result = evaluate_predictions(out, scans.parent / "labels")
    assert {row.name for row in result.rows} == {"label 1"}  # the note has the names
    assert len(read_scores(out).manifest.rows) == 5
    # Another machine with nothing left to do, and the whole folder in one go: nothing is redone.
    assert predict_scans(run, scans, out, shard=(9, 9), device="cpu") == []
    assert len(predict_scans(run, scans, out, device="cpu")) == 5
    assert len(predicted) == 5
    assert len(merged_manifest(out).rows) == 5
    assert (out / "scores.json").exists()


def test_what_was_interrupted_goes_on(
    run: Path, scans: Path, tmp_path: Path, predicted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    predict = Predictor.__call__

    def stop(predictor: Predictor, scan: Scan, **wanted: Any) -> Prediction:
        if len(predicted) == 2:
            raise KeyboardInterrupt
        return predict(predictor, scan, **wanted)

    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "__call__", stop)
        with pytest.raises(KeyboardInterrupt):
            predict_scans(run, scans, out, device="cpu")
    rows = read_json(out / "predictions.json")["rows"]
    assert [row["seconds"] is not None for row in rows] == [True, True, False, False, False]
    found = predict_scans(run, scans, out, device="cpu")
    assert predicted == [f"case00{index}" for index in range(5)]
    assert all(case.seconds for case in found)
    (out / "case001.nii.gz").unlink()
    predict_scans(run, scans, out, device="cpu")
    assert predicted[5:] == ["case001"]
    predict_scans(run, scans / "case003.nii.gz", out, redo=True, device="cpu")
    assert predicted[6:] == ["case003"]


def test_a_case_that_is_named_but_not_finished_is_made_again(
    run: Path, scans: Path, tmp_path: Path, predicted: list[str]
) -> None:
    out, one = tmp_path / "out", scans / "case000.nii.gz"
    predict_scans(run, one, out, device="cpu")
    note = read_json(out / "predictions.json")
    note["rows"][0]["seconds"] = None  # as if killed after the file and before its note
    write_json(out / "predictions.json", note)
    predict_scans(run, one, out, device="cpu")
    assert predicted == ["case000", "case000"]


def test_other_weights_are_no_reason_to_skip(
    run: Path, scans: Path, tmp_path: Path, predicted: list[str]
) -> None:
    out = tmp_path / "out"
    one = scans / "case000.nii.gz"
    predict_scans(run, one, out, device="cpu")
    weights = (run / "last.pt").read_bytes()
    try:
        save_checkpoint(run / "last.pt", {**load_checkpoint(run / "best.pt"), "step": 99})
        with pytest.raises(UserError, match=r"made with other weights .* replace all with --redo"):
            predict_scans(run, one, out, device="cpu")
        predict_scans(run, one, out, redo=True, device="cpu")
        assert predicted == ["case000", "case000"]
        predict_scans(run, scans / "case001.nii.gz", out, device="cpu")
    finally:
        (run / "last.pt").write_bytes(weights)
    with pytest.raises(UserError, match=r"made with other weights of the checkpoint last"):
        predict_scans(run, one, out, device="cpu")


def test_notes_of_replaced_predictions_go(run: Path, scans: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for part in (1, 2):
        predict_scans(run, scans, out, shard=(part, 2), cct=True, device="cpu")
    with pytest.raises(UserError, match="and with --cct; choose another OUT"):
        predict_scans(run, scans, out, shard=(1, 2), device="cpu")
    predict_scans(run, scans, out, redo=True, device="cpu")
    assert [path.name for path in out.glob("*.json")] == ["predictions.json"]
    assert merged_manifest(out).cct is False


def test_of_two_rows_of_a_case_the_finished_one_counts(tmp_path: Path) -> None:
    row = {"case": "a", "images": ["a.nii"], "prediction": "out/a.nii"}
    for seconds, name in ((None, "predictions.json"), (2.0, "predictions-1of2.json")):
        write_json(tmp_path / name, {"rows": [row | {"seconds": seconds}]})
    assert [row.seconds for row in merged_manifest(tmp_path).rows] == [2.0]
    assert merged_manifest(tmp_path / "nowhere") == Manifest()
