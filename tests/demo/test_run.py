import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tracoco.config import Config
from tracoco.demo import run
from tracoco.demo import run as write
from tracoco.demo.run import run_demo
from tracoco.errors import UserError
from tracoco.presets import load_config


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same path with fewer scans and two steps a run."""

    def two_steps(preset: str, overrides: Sequence[str]) -> Config:
        return load_config(preset, [*overrides, "training.steps=2", "network.filters=2"])

    monkeypatch.setattr(run, "load_config", two_steps)
    monkeypatch.setattr(write, "UNLABELLED", 2)
    monkeypatch.setattr(write, "TEST", 2)


@pytest.mark.usefixtures("short")
def test_the_demo_goes_the_whole_way_and_says_where_everything_is(tmp_path: Path) -> None:
    result = run_demo(tmp_path / "demo", 0, "cpu", None)
    values = json.loads(json.dumps(result.to_json()))
    assert [row["method"] for row in values["rows"]] == [
        "supervised",
        "tracoco",
        "supervised, all labels",
    ]
    for row in values["rows"]:
        assert {"dice", "jaccard", "asd", "hd95", "missed"} <= row.keys()
        assert row["cases"] == 2
    assert all(Path(path).exists() for path in values["paths"].values())
    assert [(row["labelled"], row["unlabelled"]) for row in values["rows"]] == [
        (write.LABELLED, 0),
        (write.LABELLED, 2),
        (write.LABELLED + 2, 0),
    ]


@pytest.mark.usefixtures("short")
def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="already exists"):
        run_demo(tmp_path, 0, "cpu", None)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_unlabelled_phantoms_help(tmp_path: Path) -> None:
    result = run_demo(tmp_path / "demo", 0, "cpu", None)
    dice = {row.method: row.dice or 0.0 for row in result.rows}
    assert dice["tracoco"] > dice["supervised"]
    assert dice["supervised, all labels"] > dice["supervised"]
