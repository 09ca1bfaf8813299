"""Files in, scores out; and every problem of two folders at once."""

import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate, evaluate_predictions
from tracoco.evaluation.scores import Protocol
from tracoco.files import read_json, write_json

SPACING = np.diag([2.0, 1.0, 5.0, 1.0])


def save(path: Path, *values: int, affine: NDArray[np.float64] = SPACING) -> Path:
    """A row of voxels with these values as a NIfTI file."""
    path.parent.mkdir(exist_ok=True)
    array = np.zeros((len(values), 3, 3), dtype=np.uint8)
    array[:, 1, 1] = values
    nib.save(nib.Nifti1Image(array, affine), path)
    return path


def folders(root: Path) -> tuple[Path, Path]:
    return root / "predictions", root / "truths"


def test_two_files_may_have_different_names(tmp_path: Path) -> None:
    prediction = save(tmp_path / "out.nii.gz", 0, 1, 0, 0, 0)
    truth = save(tmp_path / "case_07.nii", 0, 0, 0, 1, 0)
    (score,) = evaluate(prediction, truth, Protocol()).rows
    # Two voxels of 2 mm.
    assert (score.case, score.label, score.name, score.hd95) == ("case_07", 1, "1", 4.0)


def test_folders_are_paired_by_stem_and_classes_are_those_of_all_truths(tmp_path: Path) -> None:
    predictions, truths = folders(tmp_path)
    save(predictions / "a.nii.gz", 0, 1, 0, 2)
    save(truths / "a.nii", 0, 1, 0, 0)
    save(predictions / "b.nii.gz", 0, 1, 0, 0)
    save(truths / "b.nii.gz", 0, 1, 0, 2)
    evaluation = evaluate(predictions, truths, Protocol(), {2: "spleen"})
    assert [(s.case, s.name, s.dice) for s in evaluation.rows] == [
        ("a", "1", 100.0),
        ("a", "spleen", 0.0),
        ("b", "1", 100.0),
        ("b", "spleen", 0.0),
    ]
    assert (evaluation.summary.missed, evaluation.summary.spurious) == (1, 1)
    assert {row.name: row.dice for row in evaluation.classes} == {
        "1": 100.0,
        "spleen": 0.0,
    }


def test_files_may_differ_in_axis_order(tmp_path: Path) -> None:
    # The same voxels with the first axis running from right to left: 4 voxels, so it ends at 6 mm.
    flipped = SPACING @ np.diag([-1.0, 1.0, 1.0, 1.0])
    flipped[0, 3] = 6.0
    prediction = save(tmp_path / "p.nii", 0, 0, 1, 0, affine=flipped)
    truth = save(tmp_path / "t.nii", 0, 1, 0, 0)
    assert evaluate(prediction, truth, Protocol()).summary.dice == 100.0


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    predictions, truths = folders(tmp_path)
    save(predictions / "extra.nii", 1)
    save(truths / "unpredicted.nii", 1)
    save(predictions / "short.nii", 0, 1)
    save(truths / "short.nii", 0, 1, 0)
    moved = SPACING.copy()
    moved[0, 3] = 1.0  # half a voxel
    save(predictions / "moved.nii", 0, 1, affine=moved)
    save(truths / "moved.nii", 0, 1)
    save(predictions / "odd.nii", 0, 7)
    save(truths / "odd.nii", 0, 1)
    (predictions / "broken.nii").write_bytes(b"no header")
    save(truths / "broken.nii", 0, 1)
    save(predictions / "twice.nii", 0, 1)
    save(predictions / "twice.nii.gz", 0, 1)
    save(truths / "twice.nii", 0, 1)
    with pytest.raises(UserError) as caught:
        evaluate(predictions, truths, Protocol())
    told = str(caught.value)
    assert told.startswith("7 problems:")
    assert "extra.nii has no truth" in told
    assert "unpredicted.nii has no prediction" in told
    assert "short.nii has the shape (3, 3, 3), its image" in told
    assert "short.nii (2, 3, 3), and the label leaves the grid of the image" in told
    assert "moved.nii lies up to 0.5 voxels away" in told
    assert "odd.nii has the values 7, which no truth has; known are 1" in told
    assert "broken.nii" in told
    assert "are both 'twice'" in told


def test_headers_may_be_rounded_but_not_differ(tmp_path: Path) -> None:
    truth = save(tmp_path / "truth.nii", *[0, 1] * 20)
    # The last of 40 voxels is off by 39 times the error of one: 0.0004 and 0.39 voxels.
    rounded = SPACING @ np.diag([1 + 1e-5, 1.0, 1.0, 1.0])
    prediction = save(tmp_path / "rounded.nii", *[0, 1] * 20, affine=rounded)
    assert evaluate(prediction, truth, Protocol()).summary.dice == 100.0
    other = SPACING @ np.diag([1 + 1e-2, 1.0, 1.0, 1.0])
    prediction = save(tmp_path / "other.nii", *[0, 1] * 20, affine=other)
    with pytest.raises(UserError, match=r"lies up to 0\.386 voxels away"):
        evaluate(prediction, truth, Protocol())


def test_truths_without_a_structure_are_a_problem(tmp_path: Path) -> None:
    prediction, truth = save(tmp_path / "p.nii", 0, 1), save(tmp_path / "t.nii", 0, 0)
    with pytest.raises(UserError, match="no truth has a labelled voxel"):
        evaluate(prediction, truth, Protocol())


def test_the_file_holds_everything_and_no_nan(tmp_path: Path) -> None:
    predictions, truths = folders(tmp_path)
    save(predictions / "a.nii", 0, 1, 0)
    save(truths / "a.nii", 0, 1, 2)
    save(predictions / "b.nii", 0, 1, 0)
    save(truths / "b.nii", 0, 1, 0)
    protocol = Protocol(units="voxel", tolerance=1.0)
    result = evaluate_predictions(predictions, truths, protocol)
    stored = read_json(predictions / "scores.json")
    assert stored == json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert (stored["prediction"], stored["truth"]) == (str(predictions), str(truths))
    assert stored["protocol"] == {
        "units": "voxel",
        "empty": "missed",
        "tolerance": 1.0,
        "cct": False,
    }
    assert [(row["case"], row["label"], row["dice"]) for row in stored["rows"]] == [
        ("a", 1, 100.0),
        ("a", 2, 0.0),
        ("b", 1, 100.0),
        ("b", 2, None),
    ]
    # Case a: 1 and 0, case b: 1. In percent, 50 and 100.
    assert stored["summary"]["dice"] == 75.0
    assert [(row["name"], row["dice"], row["missed"]) for row in stored["classes"]] == [
        ("1", 100.0, 0),
        ("2", 0.0, 1),
    ]


def test_names_come_from_the_note_and_an_invented_class_counts_as_spurious(tmp_path: Path) -> None:
    predictions, truths = folders(tmp_path)
    save(predictions / "a.nii", 1, 2, 0)
    save(truths / "a.nii", 1, 0, 0)
    with pytest.raises(UserError, match="which no truth has"):
        evaluate_predictions(predictions, truths)
    write_json(predictions / "predictions.json", {"labels": {"1": "left", "2": "right"}})
    result = evaluate_predictions(predictions, truths)
    assert [(row.name, row.spurious) for row in result.rows] == [
        ("left", False),
        ("right", True),
    ]


def test_the_scores_of_one_file_do_not_replace_those_of_its_folder(tmp_path: Path) -> None:
    predictions, truths = folders(tmp_path)
    for name in ("a", "b"):
        save(predictions / f"{name}.nii", 0, 1, 0)
        save(truths / f"{name}.nii", 0, 1, 0)
    evaluate_predictions(predictions, truths)
    single = evaluate_predictions(predictions / "a.nii", truths / "a.nii")
    assert len(single.rows) == 1
    assert len(read_json(predictions / "scores.json")["rows"]) == 2


def save_block(path: Path, *, speck: bool) -> Path:
    """Sixteen slices of 20 x 10 voxels with a block of 60, and maybe a speck far from it."""
    array = np.zeros((20, 10, 16), dtype=np.uint8)  # 3200 voxels: fewer than 3 are a speck
    array[2:5, 2:6, 2:7] = 5
    array[18, 8, 14] = 5 if speck else 0
    path.parent.mkdir(exist_ok=True)
    nib.save(nib.Nifti1Image(array, np.eye(4)), path)
    return path


def test_a_prediction_is_cleaned_before_it_is_scored_if_the_protocol_says_so(
    tmp_path: Path,
) -> None:
    predictions, truths = folders(tmp_path)
    written = save_block(predictions / "a.nii.gz", speck=True)
    save_block(truths / "a.nii.gz", speck=True)
    before = written.read_bytes()
    as_it_is = evaluate_predictions(predictions, truths)
    assert (as_it_is.summary.dice, as_it_is.protocol.cct) == (100.0, False)
    cleaned = evaluate_predictions(predictions, truths, Protocol(cct=True))
    # 60 of 61 voxels are left, and the truth is not cleaned: 2 * 60 / 121.
    assert cleaned.summary.dice == pytest.approx(100 * 120 / 121)
    assert read_json(predictions / "scores.json")["protocol"]["cct"] is True
    assert written.read_bytes() == before


def test_what_the_note_says_of_the_predictions_stays_with_their_scores(tmp_path: Path) -> None:
    predictions, truths = folders(tmp_path)
    save(predictions / "a.nii", 0, 1, 0)
    save(truths / "a.nii", 0, 1, 0)
    plain = evaluate_predictions(predictions, truths)
    assert (plain.watermark, plain.predicted_with_cct) == ("", False)
    write_json(predictions / "predictions.json", {"labels": {}, "watermark": "mark", "cct": True})
    evaluate_predictions(predictions, truths)
    stored = read_json(predictions / "scores.json")
    assert (stored["watermark"], stored["predicted_with_cct"]) == ("mark", True)
    assert stored["protocol"]["cct"] is False  # nothing was removed before scoring
