"""The manifest of predictions as a file: written, read back, of earlier versions, and broken."""

from pathlib import Path
from typing import Any

import pytest

from tracoco.errors import UserError
from tracoco.files import ScanContent, write_json
from tracoco.inference.manifest import (
    Manifest,
    PredictedCase,
    map_files,
    merged_manifest,
    read_manifests,
)

ROW = PredictedCase(
    "a",
    (Path("scans/a.nii"),),
    Path("out/a.nii"),
    1.5,
    {"entropy": Path("out/a_entropy.nii")},
    scans=(ScanContent(12, "abc", "def"),),
    digests={"a.nii": "123", "a_entropy.nii": "456"},
)
MANIFEST = Manifest(
    "runs/one",
    "last",
    "abc",
    averaged=True,
    watermark="mark",
    labels={1: "left", 2: "right"},
    rows=(ROW,),
)


def test_a_manifest_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    write_json(tmp_path / "predictions.json", MANIFEST.to_json())
    assert read_manifests(tmp_path) == {tmp_path / "predictions.json": MANIFEST}
    assert map_files(tmp_path) == {"a_entropy.nii"}


def test_the_file_has_the_keys_of_earlier_versions_and_what_identifies_the_content() -> None:
    assert MANIFEST.to_json() == {
        "run": "runs/one",
        "checkpoint": "last",
        "weights": "abc",
        "averaged": True,
        "cct": False,
        "variant": "",
        "watermark": "mark",
        "labels": {"1": "left", "2": "right"},
        "ignore": None,
        "rows": [
            {
                "case": "a",
                "images": ["scans/a.nii"],
                "prediction": "out/a.nii",
                "seconds": 1.5,
                "files": {"entropy": "out/a_entropy.nii"},
                "scans": [{"bytes": 12, "sha256": "abc", "stamp": "def"}],
                "digests": {"a.nii": "123", "a_entropy.nii": "456"},
            }
        ],
    }


def test_what_an_earlier_version_did_not_write_has_a_default(tmp_path: Path) -> None:
    row = {"case": "a", "images": ["a.nii"], "prediction": "out/a.nii"}
    values = {"run": "runs/one", "checkpoint": "best", "labels": {"1": "left"}, "rows": [row]}
    write_json(tmp_path / "predictions.json", values)
    found = merged_manifest(tmp_path)
    assert (found.run, found.checkpoint, found.labels) == ("runs/one", "best", {1: "left"})
    assert (found.weights, found.averaged, found.cct, found.watermark) == ("", False, False, "")
    assert found.rows == (PredictedCase("a", (Path("a.nii"),), Path("out/a.nii")),)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"rows": [{"case": "a"}]}, r"predictions\.json: rows\.0\.images = .*: field required"),
        ({"labels": {"one": "left"}}, r"predictions\.json: labels\.one"),
        ([], r"predictions\.json: input should be a dictionary"),
    ],
)
def test_a_broken_manifest_is_named(tmp_path: Path, values: Any, problem: str) -> None:
    write_json(tmp_path / "predictions.json", values)
    with pytest.raises(UserError, match=problem):
        merged_manifest(tmp_path)
