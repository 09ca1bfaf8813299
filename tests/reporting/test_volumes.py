"""Files of a case, found again."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.evaluation.scores import Protocol
from tracoco.reporting.pictures import read_case
from tracoco.reporting.run_record import read_scores

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_a_case_is_read_from_its_three_files(bench: "Bench") -> None:
    scores = read_scores(bench.scores(bench.run()))
    case = read_case(scores, "shifted")
    np.testing.assert_array_equal(case.truth, bench.cube(2))
    np.testing.assert_array_equal(case.prediction, bench.cube(3))
    np.testing.assert_array_equal(case.image, 100.0 * bench.cube(2))
    assert case.spacing_mm == (1, 1, 2)


@pytest.mark.parametrize("part", ["images", "labels"])
def test_a_file_that_is_gone_is_named(bench: "Bench", part: str) -> None:
    run = bench.run()
    scores = read_scores(bench.scores(run))
    (bench.root / "data-run-test" / part / "shifted.nii.gz").unlink()
    with pytest.raises(UserError, match="shifted"):
        read_case(scores, "shifted")


def test_without_a_note_the_scan_is_unknown(bench: "Bench") -> None:
    out = bench.scores(bench.run())
    (out / "predictions.json").unlink()
    with pytest.raises(UserError, match=r"no predictions\.json that names the scan of 'found'"):
        read_case(read_scores(out), "found")


def test_a_scan_of_another_size_is_refused(bench: "Bench") -> None:
    scores = read_scores(bench.scores(bench.run()))
    bench.save(bench.root / "data-run-test" / "images" / "found.nii.gz", np.ones((4, 4, 4)))
    with pytest.raises(UserError, match="different shapes"):
        read_case(scores, "found")


def test_the_picture_shows_the_prediction_as_it_was_scored(bench: "Bench") -> None:
    truth = np.zeros((16, 16, 10), dtype=np.uint8)  # 2560 voxels: a single one is a speck
    truth[2:6, 2:6, 2:6] = 1
    speckled = truth.copy()
    speckled[14, 14, 8] = 1
    for cct, specks in ((False, 1), (True, 0)):
        run, protocol = bench.run(f"cct-{cct}"), Protocol(cct=cct)
        scores = read_scores(bench.scores(run, {"a": (speckled, truth)}, protocol=protocol))
        assert read_case(scores, "a").prediction[14, 14, 8] == specks
