"""Options of a prediction are chosen on validation cases, and only where they gain."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from tracoco.api.predictions import predict
from tracoco.errors import UserError
from tracoco.evaluation import tune as tuning
from tracoco.evaluation.tune import SIZES_ML, TuneRow, _compared, _picked, p_of_gain, tune_run
from tracoco.files import read_json, write_json
from tracoco.inference.model_choice import Tuned, read_tuned
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.scans.reader import read_label
from tracoco.training.train import train

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTINGS = ["training.steps=4", "data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0"]
PLAIN = Tuned()
BOTH, MIRROR = Tuned(members="both"), Tuned(mirror=True)
LARGEST, SIZE, LARGER = Tuned(largest=(1,)), Tuned(smallest_ml=0.1), Tuned(smallest_ml=1.0)


@pytest.fixture(scope="module")
def run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train(project, load_config(None, ["method.name=cps", *SETTINGS]), out)
    return out


def test_the_p_value_is_that_of_a_one_sided_paired_t_test() -> None:
    differences = np.array([0.5, 1.5, -0.25, 2.0])
    expected = ttest_1samp(differences, 0, alternative="greater").pvalue
    assert p_of_gain(differences) == pytest.approx(expected)
    assert p_of_gain(np.array([1.0, 1.0])) == 0
    assert p_of_gain(np.zeros(3)) == p_of_gain(np.array([-1.0, -1.0])) == 1
    assert p_of_gain(np.array([5.0])) is None


def test_only_gains_above_noise_are_picked_and_one_of_each_kind() -> None:
    options = [PLAIN, BOTH, MIRROR, LARGEST, SIZE, LARGER]
    plain = [80.0, 85.0, 90.0, 70.0, 75.0]
    scores = {
        PLAIN.text: plain,
        BOTH.text: [value + gain for value, gain in zip(plain, [2, 2.1, 1.9, 2, 2], strict=True)],
        MIRROR.text: [value + gain for value, gain in zip(plain, [3, 3.1, 2.9, 3, 3], strict=True)],
        LARGEST.text: [value + gain for value, gain in zip(plain, [9, -9, 9, -8, 9], strict=True)],
        SIZE.text: [value + 0.05 for value in plain],  # surely a gain, and not worth it
        LARGER.text: [value - 1 for value in plain],
    }
    rows = _compared(options, scores)
    assert [row.difference for row in rows[1:]] == pytest.approx([2, 3, 2, 0.05, -1])
    assert _picked(options, rows) == [MIRROR]
    assert rows[3].p is not None
    assert rows[3].p > 0.05


def test_one_validation_case_records_nothing(run: Path, project: Project) -> None:
    found = tune_run(run, project)
    assert [row.option for row in found.rows] == [
        "",
        "both networks",
        "largest component of label 1",
        *(f"components of at least {size:g} ml" for size in SIZES_ML),
    ]
    assert len(found.cases) == 1
    assert found.cases == project.load_splits().validation
    assert found.chosen.text == ""
    assert read_tuned(run) == found.chosen
    assert {row.p for row in found.rows} == {None}


def test_what_is_recorded_is_used_and_plain_leaves_it_out(
    run: Path, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = project.load_cases()[0].images[0]
    tuned = tune_run(run, project).chosen
    values = tuned.model_dump(mode="json") | {"members": "both", "largest": [1]}
    write_json(run / "tuned.json", {"chosen": values})
    (case,) = predict(run, image, tmp_path / "tuned")
    assert "as tuned on validation cases: both networks, largest component of label 1" in (
        " ".join(capsys.readouterr().err.split())
    )
    own = Tuned(largest=(1,)).clean(Predictor.load(run, members="both")(image))
    assert (read_label(case.prediction).array == own.label).all()
    manifest = read_json(tmp_path / "tuned" / "predictions.json")
    assert manifest["variant"] == "both networks; largest component of label 1"
    (case,) = predict(run, image, tmp_path / "plain", plain=True, progress=False)
    assert (read_label(case.prediction).array == Predictor.load(run)(image).label).all()
    assert read_json(tmp_path / "plain" / "predictions.json")["variant"] == ""


def test_a_choice_for_other_weights_is_not_used(
    run: Path, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = project.load_cases()[0].images[0]
    write_json(run / "tuned.json", {"chosen": {"members": "both", "weights": "0" * 64}})
    predict(run, image, tmp_path / "out")
    assert "was chosen with other weights and is not used" in capsys.readouterr().err
    assert read_json(tmp_path / "out" / "predictions.json")["variant"] == ""


def test_without_validation_cases_there_is_an_error(
    run: Path, project: Project, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    splits = read_json(copy / "splits.json")
    write_json(copy / "splits.json", splits | {"validation": []})
    with pytest.raises(UserError, match="has no validation cases, and test cases must choose noth"):
        tune_run(copy, project)
    with pytest.raises(UserError, match="is no project; give the run's project"):
        tune_run(run, Project(tmp_path))


def test_several_options_are_recorded_if_they_are_as_good_together(
    run: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, cases = Predictor.load(run), [project.load_cases()[0]] * 2
    alone = {BOTH.text: [70.0, 70.0], SIZE.text: [60.0, 60.0], PLAIN.text: [50.0, 50.0]}
    for together, chosen in ((71.0, Tuned(members="both", smallest_ml=0.1)), (69.0, BOTH)):
        label = [together] * 2

        def scores(*_: object, values: list[float] = label) -> dict[str, list[float]]:
            return {Tuned(members="both", smallest_ml=0.1).text: values}

        monkeypatch.setattr(tuning, "_scores", scores)
        found, _ = tuning._combined(predictor, cases, [BOTH, SIZE], alone)
        assert found == chosen


def test_components_are_removed_by_their_volume() -> None:
    label: NDArray[np.uint8] = np.zeros((10, 10, 10), np.uint8)
    label[:3, :3, :3], label[6:8, 6:8, 6:8], label[9, 9, 9] = 1, 1, 2
    # 8 voxels of 2 x 2 x 2.5 mm are 0.08 ml.
    kept = Tuned(smallest_ml=0.081).cleaned(label, (2, 2, 2.5))
    assert (kept == 1).sum() == 27
    assert (kept == 2).sum() == 1, "the only component of a class stays"
    assert (Tuned(smallest_ml=0.079).cleaned(label, (2, 2, 2.5)) == label).all()
    assert (Tuned(largest=(1,)).cleaned(label, (2, 2, 2.5)) == kept).all()


def test_a_row_of_the_plain_prediction_has_no_difference() -> None:
    assert _compared([PLAIN], {"": [50.0, 70.0]}) == [TuneRow("", 60.0)]
