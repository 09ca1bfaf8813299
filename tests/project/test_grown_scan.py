"""A scan whose spacing would blow up its grid is named by `check` and by `prepare`."""

from pathlib import Path

import numpy as np
import pytest
from samples import write_balls, write_scan

from tracoco import memory
from tracoco.errors import UserError
from tracoco.project.check.check import check, gather
from tracoco.project.create import init_project
from tracoco.project.plan import Plan
from tracoco.project.prepare import prepare
from tracoco.project.preprocess import check_stored_size


def test_check_and_prepare_name_the_scan_and_the_way_out(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=2)
    noise = np.random.default_rng(0).normal(50, 20, (26, 24, 20)).astype(np.float32)
    write_scan(data / "images" / "huge.nii.gz", noise, (100.0, 100.0, 100.0))
    project = init_project(data, tmp_path / "project", validation=1)
    rows = [row for row in check(gather(project.root), workers=1).rows if row.severity == "error"]
    assert [(row.case, Path(row.file).name) for row in rows] == [("huge", "huge.nii.gz")]
    assert "has voxels of 100 x 100 x 100 mm and becomes 2600 x 2400 x" in rows[0].problem
    assert "correct its spacing" in rows[0].fix
    with pytest.raises(UserError, match=r"huge\.nii\.gz has voxels of 100 x 100 x 100 mm"):
        prepare(project)


@pytest.fixture
def plan(project: object) -> Plan:
    found: Plan = project.load_plan()  # type: ignore[attr-defined]  # the shared project
    return found


def test_what_does_not_fit_memory_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    check_stored_size((26, 24, 20), (1.0, 1.0, 2.0), plan, "a.nii")
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(UserError, match=r"a\.nii has voxels of 1 x 1 x 2 mm .*, which needs"):
        check_stored_size((26, 24, 20), (1.0, 1.0, 2.0), plan, "a.nii")


def test_a_small_scan_may_grow(plan: Plan) -> None:
    check_stored_size((10, 10, 10), (5.0, 5.0, 10.0), plan, "a.nii")
