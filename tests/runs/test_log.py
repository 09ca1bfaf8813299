import json
import math
from pathlib import Path

import pytest
from samples import step_record

from tracoco.errors import UserError
from tracoco.methods.health import PseudoLabelHealth
from tracoco.runs.log import (
    RunLog,
    StepRecord,
    UnlabelledRecord,
    metrics,
    read_log,
    rewind_log,
)

HEALTH = PseudoLabelHealth(
    class_fractions=(0.75, 0.25),
    agreement=0.5,
    distance=12.0,
    common=(0.125,),
    marked=(0.25,),
    likely=0.9,
    unlikely=0.4,
    further={"trust": 0.7},
)
FULL = StepRecord(
    step=7,
    loss=1.5,
    terms={"supervised": 1.0, "crc": 0.5},
    rate=0.01,
    shift=0.2,
    seconds=0.25,
    health=HEALTH,
    skipped=("a", "b"),
    unlabelled=UnlabelledRecord(0.5, 0.8, 0.9, doubted=True),
    collapsed=("organ",),
    fading=("organ",),
    restrained=("organ",),
    lost=("organ",),
    validation_dice=0.75,
    test_dice=0.5,
)
OLD = {
    "step": 7,
    "loss": None,
    "terms": {"supervised": None, "crc": 0.5},
    "rate": 0.01,
    "shift": 0.2,
    "health": {
        "share/0": 0.75,
        "share/1": 0.25,
        "agreement": 0.5,
        "distance": 12.0,
        "common/1": 0.125,
        "marked/1": 0.25,
        "likely": 0.9,
        "unlikely": 0.4,
        "trust": 0.7,
    },
    "seconds": 0.25,
    "unlabelled": {"weight": 0.5, "known": 0.8},
    "validation": {"dice": 0.75},
}
"""A line as it was written when records had no type: a key a class, and null for an overflow."""


def test_records_come_back_in_order(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for step in range(3):
        log.write(step_record(step))
    log.close()
    assert [entry.step for entry in read_log(tmp_path / "log.jsonl")] == [0, 1, 2]


def test_rewinding_drops_later_steps_and_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(step_record(step).to_json()) for step in range(5)]
    path.write_text("\n".join(lines) + '\n{"step": 5, "lo', encoding="utf-8")
    assert [entry.step for entry in rewind_log(path, 3)] == [0, 1, 2]
    assert [entry.step for entry in read_log(path)] == [0, 1, 2]
    log = RunLog(tmp_path)
    log.write(step_record(3))
    log.close()
    assert [entry.step for entry in read_log(path)] == [0, 1, 2, 3]


def test_trackers_get_every_number_of_a_record_and_no_name_of_a_case() -> None:
    found = metrics(FULL)
    assert all(type(value) is float for value in found.values())
    assert found["terms/crc"] == 0.5
    assert found["health/class_fractions/1"] == 0.25
    assert (found["skipped"], found["lost"]) == (2.0, 1.0)
    assert (found["validation/dice"], found["test/dice"]) == (0.75, 0.5)
    assert found["unlabelled/weight"] == 0.5
    assert "step" not in found


def test_no_log_yet_is_an_empty_one(tmp_path: Path) -> None:
    assert read_log(tmp_path / "log.jsonl") == []
    assert rewind_log(tmp_path / "log.jsonl", 0) == []


def test_a_full_disk_is_one_line_also_when_the_log_is_closed(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    log = RunLog(tmp_path)
    with pytest.raises(UserError, match=r"log\.jsonl: no space left"):
        log.write(step_record(0))
    with pytest.raises(UserError, match=r"log\.jsonl: no space left"):
        log.close()


def test_a_record_is_the_same_after_its_way_through_json() -> None:
    entry = json.loads(json.dumps(FULL.to_json()))
    assert StepRecord.from_json(entry) == FULL
    assert entry["health"]["class_fractions"] == [0.75, 0.25]
    short = step_record(3)
    assert StepRecord.from_json(short.to_json()) == short
    assert set(short.to_json()) == {"step", "loss", "terms", "rate", "shift", "seconds", "health"}


def test_a_log_from_before_records_had_a_type_is_read() -> None:
    found = StepRecord.from_json(OLD)
    assert found.health == HEALTH
    assert math.isnan(found.loss)
    assert math.isnan(found.terms["supervised"])
    assert found.terms["crc"] == 0.5
    assert found.unlabelled == UnlabelledRecord(0.5, 0.8)
    assert (found.validation_dice, found.test_dice) == (0.75, None)


def test_ten_classes_of_an_old_log_stay_in_their_order() -> None:
    health = {f"share/{k}": k / 100 for k in reversed(range(12))}
    found = StepRecord.from_json({"step": 0, "health": health}).health
    assert found.class_fractions == tuple(k / 100 for k in range(12))


def test_a_resume_keeps_the_lines_of_an_old_log_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    text = json.dumps(OLD) + "\n"
    path.write_text(text + json.dumps(OLD | {"step": 8}) + "\n", encoding="utf-8")
    (kept,) = rewind_log(path, 8)
    assert kept.health == HEALTH
    assert path.read_text(encoding="utf-8") == text


def test_numbers_that_are_not_finite_are_null_in_the_file(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    health = PseudoLabelHealth((math.nan, 1.0))
    log.write(step_record(0, loss=math.inf, terms={"crc": math.nan}, health=health))
    log.close()
    (line,) = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    entry = json.loads(line)
    assert (entry["loss"], entry["terms"], entry["health"]) == (
        None,
        {"crc": None},
        {"class_fractions": [None, 1.0]},
    )
    (read,) = read_log(tmp_path / "log.jsonl")
    assert math.isnan(read.loss)
    assert math.isnan(read.health.class_fractions[0])


def test_a_step_that_is_infinite_is_a_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": Infinity, "loss": 1.0}\n{"step": 1, "loss": 1.0}\n')
    with pytest.raises(UserError, match="line 1 is no record of a step"):
        read_log(path)
