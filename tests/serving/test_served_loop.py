"""The loop over HTTP: next, draft, corrected label, training, next again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from labelling.conftest import SETTINGS
from samples import make_project, write_scan
from serving.conftest import Client, served

import tracoco as tc
from tracoco.demo.phantom import SPACING_MM, make_phantom
from tracoco.labelling.rounds import read_rounds
from tracoco.project.folder import Project
from tracoco.scans.reader import read_label, write_label
from tracoco.scans.scan import Structure


def corrected(client: Client, model: str, case: str, folder: Path) -> bytes:
    """The draft of a scan with a box drawn into it, as a segmentation that 3D Slicer saves."""
    _, draft = client.infer(model, case, result_extension=".nrrd")
    path = folder / "draft.nrrd"
    path.write_bytes(draft)
    label = read_label(path)
    array = label.array.astype(np.uint8)
    array[tuple(slice(n // 2 - 3, n // 2 + 3) for n in array.shape)] = 1
    saved = folder / "corrected.seg.nrrd"
    write_label(saved, array, label.grid, [Structure(1, "label 1")])
    return saved.read_bytes()


def one_round(
    client: Client, project: Project, model: str, steps: int, folder: Path
) -> tuple[str, str]:
    """Label one scan over HTTP and train; that scan, and the one that is offered after it."""
    assert client("POST", f"/batch/infer/{model}").status in (200, 429)
    assert client.wait("/batch/infer")["status"] == "DONE", client("GET", "/logs/").body.decode()
    sample = client("POST", "/activelearning/uncertainty", {}).json
    case = sample["id"]
    assert "from its nearest labelled or chosen scan" in sample["why"]
    assert case in project.load_splits().unlabelled
    label = corrected(client, model, case, folder)
    saved = client.save(case, label, "label.seg.nrrd", label_info=[{"name": "label 1", "idx": 1}])
    assert saved.status == 200, saved.body
    started = client("POST", f"/train/{model}", {"client_id": "user-xyz", "steps": steps}).json
    assert started["status"] == "RUNNING"
    assert client("POST", f"/train/{model}", {}).status == 429
    assert client("GET", "/train/?check_if_running=true").status == 200
    ended = client.wait("/train/")
    assert ended["status"] == "DONE", client("GET", "/logs/").body.decode()
    following = client("POST", "/activelearning/uncertainty", {}).json
    return case, following["id"]


def test_a_round_over_http_with_a_tiny_network(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=3, unlabelled=3, validation=1)
    run = tc.train(project, settings=SETTINGS, progress=False)
    with served(project) as client:
        case, following = one_round(client, project, "project", steps=2, folder=tmp_path)
        assert following != case
        splits = project.load_splits()
        assert case in splits.labelled
        assert following in splits.unlabelled
        (done,) = read_rounds(project)
        assert done.finished
        assert (done.added, done.start) == ((case,), run.folder.name)
        newest = tc.Run.load(project.runs_root / done.run)
        assert newest.settings.training.steps == 2
        about, _ = client.infer("project", following)
        assert about["run"] == str(newest.folder)  # the server has moved on to it
        assert client("POST", "/train/project", {}).status == 400  # nothing is new


@pytest.mark.slow
def test_two_rounds_over_http_on_phantoms(tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    for index in range(8):
        phantom = make_phantom(0, index)
        write_scan(scans / "images" / f"phantom{index}.nii.gz", phantom.image, SPACING_MM)
        if index < 3:
            write_scan(scans / "labels" / f"phantom{index}.nii.gz", phantom.label, SPACING_MM)
    project = tc.init(scans, tmp_path / "heart", validation=1, progress=False).project
    assert project is not None
    tc.prepare(project, progress=False)
    tc.train(
        project,
        preset="demo",
        settings={"training.steps": 20, "network.filters": 4, "data.crop": [32, 32, 32]},
        progress=False,
    )
    with served(project) as client:
        first, _ = one_round(client, project, "heart", steps=10, folder=tmp_path)
        second, third = one_round(client, project, "heart", steps=10, folder=tmp_path)
    assert len({first, second, third}) == 3
    assert {first, second} <= set(project.load_splits().labelled)
    assert [each.number for each in read_rounds(project) if each.finished] == [1, 2]


@pytest.mark.slow
def test_a_server_that_ends_ends_its_training_which_is_resumed(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=3, unlabelled=2, validation=1)
    tc.train(project, settings=SETTINGS, progress=False)
    words = [sys.executable, "-m", "tracoco", "serve", str(project.root), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "on http://127.0.0.1:" in line, line
        client = Client(int(line.rpartition(":")[2]))
        while True:
            try:
                client("GET", "/info/")
                break
            except OSError:
                time.sleep(0.1)
        case = client("POST", "/activelearning/random", {}).json["id"]
        label = corrected(client, "project", case, tmp_path)
        assert client.save(case, label, "label.seg.nrrd").status == 200
        client("POST", "/train/project", {"steps": 100_000})
        log = project.runs_root / "tracoco-round1" / "log.jsonl"
        while not (log.is_file() and log.stat().st_size):
            assert client("GET", "/train/").json["status"] == "RUNNING", client(
                "GET", "/logs/"
            ).body
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) in (0, 130, -signal.SIGINT)
    (waiting,) = read_rounds(project)
    assert not waiting.finished
    steps = len(log.read_text(encoding="utf-8").splitlines())
    assert 0 < steps < 100_000
    time.sleep(1)
    assert len(log.read_text(encoding="utf-8").splitlines()) == steps  # nobody trains any more
    assert (project.runs_root / "tracoco-round1" / "last.pt").is_file()  # it goes on from there
