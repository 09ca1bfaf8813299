"""Files of a run or project that are damaged or come from elsewhere: one line with their name."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tracoco.errors import UserError
from tracoco.files import read_json
from tracoco.inference.predict import planned_predictions
from tracoco.project.cases import read_cases
from tracoco.project.folder import Project
from tracoco.project.splits import read_splits
from tracoco.project.store import Store
from tracoco.runs.facts import Computed, Facts
from tracoco.runs.folder import RunFolder, load_checkpoint
from tracoco.runs.log import RunLog, read_log
from tracoco.settings import read_yaml

EVIL = ["../../evil", "/etc/evil", "a/b", "..", "", "a\0b", "a\nb", ".hidden", "a\x1b[2J"]


@pytest.mark.parametrize("id_", EVIL)
def test_an_id_that_leaves_its_folder_is_refused_wherever_it_is_read(
    tmp_path: Path, id_: str
) -> None:
    case = {"id": id_, "images": ["a.nii"], "label": "b.nii"}
    (tmp_path / "cases.json").write_text(json.dumps({"cases": [case]}))
    (tmp_path / "splits.json").write_text(json.dumps({"labelled": ["a"], "test": [id_]}))
    with pytest.raises(UserError, match=r"cases\.json: .*cannot be the name of a file"):
        read_cases(tmp_path / "cases.json")
    with pytest.raises(UserError, match=r"splits\.json: .*cannot be the name of a file"):
        read_splits(tmp_path / "splits.json")
    with pytest.raises(UserError, match="cannot be the name of a file"):
        planned_predictions(tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="cannot be the name of a file"):
        Project(tmp_path).load_cases()


@pytest.mark.parametrize(
    "content",
    [
        *(b"a: b: c", b"\xff\xfe", b"a: [", b"a: 2020-13-45", b"\x1b", b"[" * 5000),
        b"a: &x [1, 2]\nb: [*x, *x]\n",
    ],
)
def test_a_broken_yaml_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    for read in (lambda: read_yaml(path), RunFolder(tmp_path).config):
        with pytest.raises(UserError, match=r"config\.yaml is not valid YAML") as caught:
            read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[1]", "5", "null"])
def test_settings_that_are_no_settings_are_one_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(UserError, match=r"config\.yaml holds no settings"):
        RunFolder(tmp_path).config()


@pytest.mark.parametrize(
    "facts", [{"watermark": True}, {"computed": 3}, {"ended_with": "x"}, [1], "x", None]
)
def test_facts_of_another_form_are_one_error(tmp_path: Path, facts: object) -> None:
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=r"facts\.json"):
        RunFolder(tmp_path).facts()


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    facts = {"git": "abc", "computed": {"precision": "bf16"}, "watermark": "phantoms", "threads": 2}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    folder = RunFolder(tmp_path)
    assert folder.facts() == Facts(
        git="abc", computed=Computed("bf16"), watermark="phantoms", threads=2
    )


def test_what_another_version_has_recorded_stays_in_the_file(tmp_path: Path) -> None:
    facts = {"watermark": "phantoms", "init_from": None, "of another version": [1]}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    folder = RunFolder(tmp_path)
    folder.renew_facts(replace(folder.facts(), computed=Computed(notes=("no GPU",))))
    assert folder.facts() == Facts(watermark="phantoms", computed=Computed(notes=("no GPU",)))
    assert read_json(tmp_path / "facts.json")["of another version"] == [1]


RECORD = b'{"step": 0, "loss": 1.0}\n'


@pytest.mark.parametrize(
    "line", [b"\xff{}", b'{"loss": 1}', b"[]", b'{"step": "x"}', b'{"step": 1, "terms": 3}', b""]
)
def test_a_line_of_the_log_that_is_no_record_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(RECORD + line + b"\n" + RECORD)
    with pytest.raises(UserError, match=r"log\.jsonl: line 2 is no record of a step"):
        read_log(path)


@pytest.mark.parametrize("end", [b"", b'{"step": 1, "lo', b"\xff"])
def test_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(RECORD + end)
    assert [record.step for record in read_log(path)] == [0]
    RunLog(tmp_path).close()


@pytest.mark.parametrize("content", [{"method": {}}, {"step": "x"}, [1, 2], 5])
def test_a_checkpoint_of_another_form_is_one_error(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "last.pt")
    with pytest.raises(UserError, match=r"last\.pt is damaged or is not a checkpoint"):
        load_checkpoint(tmp_path / "last.pt")


@pytest.mark.parametrize("key", ["id", "plan", "sources", "shape", "spacing_mm", "class_voxels"])
def test_a_store_that_lacks_a_fact_is_one_error(tmp_path: Path, key: str) -> None:
    facts: dict[str, object] = {"id": "a", "plan": "b", "sources": {}, "spacing_mm": [1, 1, 1]}
    facts["shape"] = [2, 2, 2]
    facts |= {"class_voxels": None}
    np.save(tmp_path / "a.image.npy", np.zeros((1, 2, 2, 2), np.float32))
    (tmp_path / "a.json").write_text(json.dumps(facts))
    assert Store(tmp_path).case("a").image().shape == (1, 2, 2, 2)
    del facts[key]
    (tmp_path / "a.json").unlink()
    (tmp_path / "a.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=rf"a\.json: {key} = "):
        Store(tmp_path).case("a")


@pytest.mark.parametrize("header", [b"\x93NUMPY\x01\0\x10\0{'descr': (((", b"", b"\x93NUMPY\x01"])
def test_a_store_with_a_damaged_array_is_one_error(tmp_path: Path, header: bytes) -> None:
    facts: dict[str, object] = {"id": "a", "plan": "b", "sources": {}, "spacing_mm": [1, 1, 1]}
    facts["shape"] = [2, 2, 2]
    (tmp_path / "a.json").write_text(json.dumps(facts | {"class_voxels": None}))
    (tmp_path / "a.image.npy").write_bytes(header)
    with pytest.raises(UserError, match="case 'a' is not prepared"):
        Store(tmp_path).case("a").image()
    np.save(tmp_path / "a.image.npy", np.zeros((1, 2, 2, 3), np.float32))
    with pytest.raises(UserError, match="case 'a' is not prepared"):
        Store(tmp_path).case("a").image()
