"""Nothing that a DICOM header says of a patient gets into what is written or printed, and files
have the modes that the umask asks for."""

import os
import re
import socket
import stat
from pathlib import Path
from typing import NoReturn

import nibabel as nib
import numpy as np
import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset
from scans.dicom_samples import write_series
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.scans.reader import read_grid

PERSONAL = {
    "PatientName": "Zyxqwv^Patientia",
    "PatientID": "PID-9876543",
    "PatientBirthDate": "19431102",
    "StudyDate": "20170323",
    "SeriesDate": "20170324",
    "AcquisitionDate": "20170325",
    "ContentDate": "20170326",
    "AccessionNumber": "ACC-55511",
    "ReferringPhysicianName": "Drwho^Referrer",
}
REQUIRED_IN_SEG = ("PatientName", "PatientID", "PatientBirthDate", "StudyDate")
"""Attributes of patient and study that PS3.3 wants in every object, with those that may be empty:
AccessionNumber and ReferringPhysicianName."""
OPTIONAL = {
    "OtherPatientNames": "Zyxqwv^Maiden",
    "PatientComments": "Commentia on a person",
    "PatientAddress": "Streetname 12",
    "InstitutionName": "Clinicum Nominatum",
    "OperatorsName": "Operata^Nurse",
    "SeriesDescription": "Thoraxia of Zyxqwv",
    "StudyDescription": "Studium of Zyxqwv",
    "ProtocolName": "Protocolla",
    "StationName": "Stationia",
}
SECRET = [
    word
    for value in {**PERSONAL, **OPTIONAL}.values()
    for word in re.split(r"[\^ ]", value)
    if len(word) > 6
] + ["1943-11-02", "2017-03-23"]


def spoken_for(_: int, slice_: Dataset) -> None:
    for keyword, value in {**PERSONAL, **OPTIONAL}.items():
        setattr(slice_, keyword, value)


def write_cases(root: Path, count: int) -> None:
    random = np.random.default_rng(0)
    for index in range(count):
        voxels = random.integers(-50, 50, (20, 24, 22)).astype(np.int16)
        voxels[6:14, 8:16, 7:15] += 200
        series = write_series(root / "images" / f"case{index}", voxels, change=spoken_for)
        grid = read_grid(series)
        label = np.zeros(grid.shape, np.uint8)
        label[7:15, 8:16, 6:14] = 1
        (root / "labels").mkdir(exist_ok=True)
        nib.save(nib.Nifti1Image(label, grid.affine), root / "labels" / f"case{index}.nii.gz")


def content(file: Path) -> bytes:
    """What a file holds, without the fields that a DICOM segmentation must repeat."""
    if file.suffix != ".dcm":
        return file.read_bytes()
    dataset = dcmread(file)
    assert all(dataset[name].value == PERSONAL[name] for name in REQUIRED_IN_SEG)
    for keyword in (*REQUIRED_IN_SEG, "AccessionNumber", "ReferringPhysicianName", "PixelData"):
        delattr(dataset, keyword)
    return str(dataset).encode()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket, "create_connection", refused)


@pytest.mark.usefixtures("no_network")
def test_no_name_number_or_date_of_a_patient_is_written_or_printed(tmp_path: Path) -> None:
    scans, project = tmp_path / "scans", tmp_path / "project"
    write_cases(scans, 4)
    run, out = project / "runs" / "a", tmp_path / "out"
    small = ["network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]", "training.steps=1"]
    settings = [word for setting in small for word in ("--set", setting)]
    said = ""
    before = os.umask(0o027)
    try:
        for words in (
            ["init", scans, "--out", project, "--validation", "1", "--test", "1"],
            ["check", project],
            ["prepare", project],
            [
                "train",
                project,
                "--out",
                run,
                "--device",
                "cpu",
                "--method",
                "supervised",
                *settings,
            ],
            ["predict", run, project, out, "--save", "entropy", "--dicom-seg", "--device", "cpu"],
            ["evaluate", out, project],
            ["report", run, "--scores", out / "scores.json"],
        ):
            result = CliRunner().invoke(app, list(map(str, words)))
            assert result.exit_code in ((0, 1) if words[0] == "check" else (0,)), result.output
            said += result.output
    finally:
        os.umask(before)
    written = [path for root in (project, out) for path in root.rglob("*")]
    files = [path for path in written if path.is_file()]
    assert {"log.jsonl", "last.pt", "predictions.json", "scores.json"} <= {f.name for f in files}
    assert {".html", ".dcm", ".npy", ".gz", ".yaml"} <= {file.suffix for file in files}
    for word in SECRET:
        assert word not in said
        assert [file for file in files if word.encode() in content(file)] == [], word
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640}
    assert {stat.S_IMODE(path.stat().st_mode) for path in written if path.is_dir()} == {0o750}


def mixed(index: int, slice_: Dataset) -> None:
    spoken_for(index, slice_)
    if index == 2:
        slice_.SeriesInstanceUID = "1.2.3.99"


def broken_position(index: int, slice_: Dataset) -> None:
    spoken_for(index, slice_)
    del slice_.ImagePositionPatient


def tall(index: int, slice_: Dataset) -> None:
    spoken_for(index, slice_)
    slice_.Rows = slice_.Rows + index


@pytest.mark.parametrize("change", [mixed, broken_position, tall])
def test_no_error_names_a_patient(tmp_path: Path, change: object) -> None:
    folder = tmp_path / "scans"
    write_series(folder / "case", change=change)  # type: ignore[arg-type]  # as each is
    result = CliRunner().invoke(app, ["check", str(folder)])
    assert result.exit_code == 2
    said = result.output + repr(result.exception)
    assert [word for word in SECRET if word in said] == []
