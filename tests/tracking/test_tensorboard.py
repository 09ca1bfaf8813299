"""TensorBoard's files, read back by its own reader."""

import threading
from pathlib import Path

import numpy as np
import pytest

from tracoco.tracking.tracker import TrackedRun, open_trackers

events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def test_every_run_has_its_curves_settings_and_pictures(tmp_path: Path) -> None:
    tracking = open_trackers(TrackedRun(tmp_path, "heart", 0))
    tracking.settings({"training.steps": 3, "method.name": "tracoco"})
    for step in range(3):
        tracking.metrics({"loss": 1.0 / (step + 1), "terms/crc": 0.5}, step)
    tracking.picture("case", np.zeros((4, 6, 3), np.uint8), 1)
    tracking.close("stopped")
    resumed = open_trackers(TrackedRun(tmp_path, "heart", 2))
    resumed.metrics({"loss": 0.25}, 2)
    resumed.close("finished")
    board = events.EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert set(board.Tags()["scalars"]) == {"loss", "terms/crc"}
    found = [(event.step, round(event.value, 3)) for event in board.Scalars("loss")]
    assert found == [(0, 1.0), (1, 0.5), (2, 0.25)]
    (picture,) = board.Images("case")
    assert (picture.width, picture.height, picture.step) == (6, 4, 1)
    (text,) = board.Tensors("settings/text_summary")
    assert b"| training.steps | 3 |" in text.tensor_proto.string_val[0]
    assert not (tmp_path / "tracking.json").exists()


def test_a_full_disk_is_told_in_one_line_without_a_traceback_of_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    tracking = open_trackers(TrackedRun(tmp_path, "heart", 0))
    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", full)
    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.flush", full)
    for step in range(100):
        tracking.metrics({"loss": 1.0}, step)
    tracking.close("finished")
    said = capsys.readouterr().err
    assert said.count("tensorboard keeps nothing more of this run") == 1
    assert not shown
    failing = threading.Thread(target=full)
    failing.start()
    failing.join()
    assert len(shown) == 1  # errors of other threads are shown as ever
