from pathlib import Path

import pytest

from tracoco.errors import UserError, raise_all
from tracoco.project.check.problems import Row, error_rows, noted

FILE = Path("scan.nii")


@pytest.mark.parametrize(
    ("message", "problem", "fix"),
    [
        ("scan.nii is cut short; copy it again", "is cut short", "copy it again"),
        (
            "scan.nii has 3 values; 2 are allowed. Look at it",
            "has 3 values; 2 are allowed",
            "Look at it",
        ),
        (
            "scan.nii has 2 NaN voxels; replace them, e.g. by 0.5, and save it",
            "has 2 NaN voxels",
            "replace them, e.g. by 0.5, and save it",
        ),
        (
            "scan.nii has 2 volumes; a scan is one. Choose one; if they are channels, say so",
            "has 2 volumes; a scan is one",
            "Choose one; if they are channels, say so",
        ),
        ("scan.nii does not exist", "does not exist", ""),
        ("other.nii lies elsewhere; move it", "other.nii lies elsewhere", "move it"),
    ],
)
def test_a_message_is_taken_apart_into_problem_and_way_out(
    message: str, problem: str, fix: str
) -> None:
    (row,) = error_rows(UserError(message), "a", FILE)
    assert (row.case, row.file, row.severity) == ("a", "scan.nii", "error")
    assert (row.problem, row.fix) == (problem, fix)


def test_several_problems_in_one_error_are_several_rows() -> None:
    rows: list[Row] = []
    with noted(rows):
        raise_all(["a is gone; find it", "b is gone; find it"])
    assert [row.problem for row in rows] == ["a is gone", "b is gone"]


def test_other_lines_of_a_message_stay_with_it() -> None:
    assert len(error_rows(UserError("it is laid out in no known way. Known are\n  x\n  y"))) == 1


def test_a_file_that_cannot_be_opened_is_a_row_too(tmp_path: Path) -> None:
    rows: list[Row] = []
    with noted(rows, "a", FILE):
        (tmp_path / "missing").read_bytes()
    (row,) = rows
    assert (row.file, row.severity) == (str(tmp_path / "missing"), "error")
    assert "No such file" in row.problem
