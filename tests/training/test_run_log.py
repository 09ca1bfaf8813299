import json
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.runs.log import RunLog, read_log, rewind_log


def record(step: int) -> dict[str, object]:
    return {"step": step, "loss": 1.0, "terms": {"supervised": 1.0}, "health": {}}


def test_records_come_back_in_order(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    for step in range(3):
        log.write(record(step))
    log.close()
    assert [entry["step"] for entry in read_log(tmp_path / "log.jsonl")] == [0, 1, 2]


def test_rewinding_drops_later_steps_and_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(record(step)) for step in range(5)]
    path.write_text("\n".join(lines) + '\n{"step": 5, "lo', encoding="utf-8")
    assert [entry["step"] for entry in rewind_log(path, 3)] == [0, 1, 2]
    assert [entry["step"] for entry in read_log(path)] == [0, 1, 2]
    log = RunLog(tmp_path, 3)
    log.write(record(3))
    log.close()
    assert [entry["step"] for entry in read_log(path)] == [0, 1, 2, 3]


def test_tensorboard_gets_every_figure_where_it_is_installed(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = RunLog(tmp_path, 0)
    for step in range(3):
        log.write(record(step) | {"health": {"agreement": 0.5}})
    log.close()
    board = events.EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert set(board.Tags()["scalars"]) == {"loss", "terms/supervised", "health/agreement"}
    assert [event.step for event in board.Scalars("loss")] == [0, 1, 2]


def test_no_log_yet_is_an_empty_one(tmp_path: Path) -> None:
    assert read_log(tmp_path / "log.jsonl") == []
    assert rewind_log(tmp_path / "log.jsonl", 0) == []


def test_a_full_disk_is_one_line_also_when_the_log_is_closed(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    log = RunLog(tmp_path, 0)
    with pytest.raises(UserError, match=r"log\.jsonl: no space left"):
        log.write(record(0))
    with pytest.raises(UserError, match=r"log\.jsonl: no space left"):
        log.close()
