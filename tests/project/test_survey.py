"""The reading of scans that `init` and `check` share."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from samples import write_balls, write_scan

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.cases import Case
from tracoco.project.survey import SurveyTask, survey_case
from tracoco.scans.scan import LabelScan, Scan

COUNTING = """
import json, sys
from collections import Counter
from pathlib import Path
import tracoco as tc

opened = Counter()

def note(event, arguments):
    if event == "open" and str(arguments[0]).startswith(sys.argv[1]):
        opened[Path(arguments[0]).relative_to(sys.argv[1]).as_posix()] += 1

def count(task):
    opened.clear()
    task()
    return dict(opened)

data, project = sys.argv[1:]
sys.addaudithook(note)
found = {
    "init": count(lambda: tc.init(data, project, validation=1, workers=1, progress=False)),
    "check of a folder": count(lambda: tc.check(data, workers=1, progress=False)),
    "check of a project": count(lambda: tc.check(project, workers=1, progress=False)),
}
print(json.dumps(found))
"""


def test_init_and_check_open_every_scan_once(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=2)
    files = sorted(path for path in data.rglob("*") if path.is_file())
    assert len(files) == 8
    # Files of one size: nothing but their content tells them apart.
    write_scan(data / "images" / "x.nii", np.arange(120, dtype=np.float32).reshape(4, 5, 6))
    write_scan(data / "images" / "y.nii", np.arange(120, dtype=np.float32).reshape(4, 5, 6) + 1)
    names = [path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()]
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, str(data), str(tmp_path / "project")],
        capture_output=True,
        text=True,
        check=True,
    )
    for command, opened in json.loads(done.stdout).items():
        assert opened == dict.fromkeys(names, 1), command


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """4 x 5 x 6 voxels; the image is 0 in the first plane, the label 2 there and 1 in the last."""
    image = np.zeros((4, 5, 6), dtype=np.float32)
    image[1:] = np.arange(90, dtype=np.float32).reshape(3, 5, 6) + 1
    label = np.zeros((4, 5, 6), dtype=np.uint8)
    label[0, 2, 2:5], label[3, 4, 3] = 2, 1
    write_scan(tmp_path / "image.nii", image)
    write_scan(tmp_path / "label.nii", label)
    return Case("a", (tmp_path / "image.nii",), tmp_path / "label.nii")


def test_a_survey_has_what_the_voxels_tell(case: Case) -> None:
    survey = survey_case(SurveyTask(case, foreground=10))
    assert (survey.image_problems, survey.label_problems, survey.cost) == ((), (), None)
    assert survey.image is not None
    assert survey.image.content == Box((1, 0, 0), (3, 5, 6))
    assert survey.image.constant == ()
    assert (survey.image.intensities[0].lowest, survey.image.intensities[0].highest) == (0, 90)
    assert survey.label is not None
    assert survey.label.voxels == {0: 116, 1: 1, 2: 3}
    # Start and end of axis 0, end of axis 1.
    assert survey.label.touched == ((0, 0), (0, 1), (1, 1))
    assert survey.label.in_margin == 3
    assert survey.label.foreground is not None
    # Voxel 4, 3 of the last plane is number 2 x 30 + 4 x 6 + 3, counted from 1.
    assert sorted(survey.label.foreground[0].tolist()) == [0, 0, 0, 88]


def test_without_readable_voxels_the_header_is_known_all_the_same(case: Case) -> None:
    assert case.label is not None
    path = case.images[0]
    path.write_bytes(path.read_bytes()[:-1])
    write_scan(case.label, np.zeros((4, 5, 7), dtype=np.uint8))
    survey = survey_case(SurveyTask(case))
    assert survey.image is None
    assert "cut short" in survey.image_problems[0]
    assert "has the shape (4, 5, 7), its image" in survey.label_problems[0]
    assert survey.statistics is not None
    assert (survey.statistics.shape, survey.statistics.content_shape) == ((4, 5, 6), None)


def prepare(scan: Scan, label: LabelScan | None, *, sound: bool) -> None:
    """Takes a megabyte; refuses a case that is not sound."""
    assert label is not None
    assert scan.array.shape == (1, *label.array.shape)
    np.zeros(2**20, dtype=np.uint8)
    if not sound:
        raise UserError("no")


def test_what_preparing_takes_is_measured_while_scans_are_in_memory(case: Case) -> None:
    cost = survey_case(SurveyTask(case, prepare=partial(prepare, sound=True))).cost
    assert cost is not None
    assert cost.seconds > 0
    assert cost.peak_bytes > 2**20
    refused = survey_case(SurveyTask(case, prepare=partial(prepare, sound=False)))
    assert (refused.cost, refused.label_problems) == (None, ())
