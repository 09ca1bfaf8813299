"""Figures of the trainings themselves: seconds a step, and how far two networks part."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from samples import step_record

from tracoco.errors import UserError
from tracoco.methods import METHODS
from tracoco.methods.health import PseudoLabelHealth
from tracoco.project.folder import Project
from tracoco.runs.log import read_log
from tracoco.studies.paper.figures import time as figures_time
from tracoco.studies.paper.figures.divergence import Stage, divergence, over_runs, stages
from tracoco.studies.paper.figures.figure_settings import FigureRun
from tracoco.studies.paper.figures.time import half_interquartile, step_seconds, training_time
from tracoco.studies.paper.request import PaperRequest

Ask = Callable[..., PaperRequest]


def test_a_step_takes_the_median_of_the_warm_steps(
    ask: Ask, small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("supervised", "cac", "tracoco")
    monkeypatch.setattr(figures_time, "METHODS", {name: METHODS[name] for name in names})
    found = training_time(ask(steps=7), "")
    rows = {row["method"]: row for row in found.rows}
    assert tuple(rows) == names
    seconds = {}
    for name in names:
        (log,) = (
            log
            for log in (small.root / "paper").glob(f"{name}-2labels-*-seed0/log.jsonl")
            if len(read_log(log)) == 7
        )
        last = [record.seconds for record in read_log(log)[5:]]
        seconds[name] = median(last)
        assert rows[name]["seconds_a_step"] == pytest.approx(seconds[name])
        assert rows[name]["spread"] == pytest.approx(abs(last[0] - last[1]) / 4)
        assert not (log.parent / "predictions").exists()
    ratio = seconds["tracoco"] / seconds["supervised"]
    assert rows["tracoco"]["times_supervised"] == pytest.approx(ratio)
    assert rows["tracoco"]["times_cac"] == pytest.approx(seconds["tracoco"] / seconds["cac"])
    assert rows["tracoco"]["published_times_cac"] == 0.5
    assert rows["cac"]["published_times_cac"] is None
    said = "batches of 4 labelled and 4 unlabelled crops of 16x16x8 voxels; the paper's batch is 8"
    assert any(note.startswith("on cpu with") and said in note for note in found.notes)


def test_every_method_is_timed_at_the_published_batch(
    small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: dict[str, tuple[int, int]] = {}

    def asked(request: PaperRequest, _: str, runs: Sequence[FigureRun]) -> Iterator[None]:
        for run in runs:
            config = request.spec(run.preset, run.changes).config(0)
            batches[config.method.name] = config.data.batch
        raise UserError("asked")
        yield

    monkeypatch.setattr(figures_time, "trained_runs", asked)
    for data in ("brats19", "la"):  # the published batch, whatever is drawn
        with pytest.raises(UserError, match="asked"):
            training_time(PaperRequest({data: small.root}), data)
        assert set(batches) == {name for name, row in METHODS.items() if row.alone}
        assert set(batches.values()) == {(4, 4)}
        batches.clear()
    # What a user sets still holds.
    changed = PaperRequest({"brats19": small.root}, changes=("data.labelled_batch=2",))
    with pytest.raises(UserError, match="asked"):
        training_time(changed, "brats19")
    assert set(batches.values()) == {(2, 4)}


def test_spread_is_half_of_what_the_middle_half_takes() -> None:
    assert half_interquartile([1, 2, 3, 4, 5]) == 1
    assert half_interquartile([7]) == 0


def test_a_run_without_warm_steps_cannot_be_timed(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "seconds": float(step)}) for step in range(6)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert step_seconds(tmp_path) == [5.0]
    (tmp_path / "log.jsonl").write_text("\n".join(lines[:5]), encoding="utf-8")
    with pytest.raises(UserError, match="has 5 steps"):
        step_seconds(tmp_path)


def test_stages_are_means_over_tenths_of_the_run() -> None:
    log = [
        step_record(step, health=PseudoLabelHealth(agreement=step / 64, distance=2.0 * step))
        for step in range(20)
    ]
    log[3] = step_record(3)
    found = stages(log, 20)
    assert [each.number for each in found] == list(range(1, 11))
    assert found[0] == Stage(1, 0.5 / 64, 1.0)
    assert found[1] == Stage(2, 2 / 64, 4.0)  # of step 2 alone
    assert found[9] == Stage(10, 18.5 / 64, 37.0)
    # A run that is not at its end has no late stages, rather than stretched ones.
    assert [each.number for each in stages(log[:4], 20)] == [1, 2]
    assert [each.number for each in stages(log[:4], 4)] == [1, 3, 6]
    with pytest.raises(UserError, match="no measurement"):
        stages([step_record(0)], 1)


def test_stages_of_several_runs_are_averaged_by_their_number() -> None:
    found = over_runs([Stage(2, 0.5, 3), Stage(1, 0.25, 1), Stage(1, 0.75, 3)])
    assert found == [Stage(1, 0.5, 2), Stage(2, 0.5, 3)]


def test_divergence_is_read_from_the_logs_of_three_frameworks(ask: Ask, small: Project) -> None:
    found = divergence(ask(steps=10), "")
    assert [row["framework"] for row in found.rows[::10]] == [
        "mean-teacher",
        "co-training",
        "tracoco",
    ]
    (log,) = (
        log
        for log in (small.root / "paper").glob("cps-2labels-*/log.jsonl")
        if len(read_log(log)) == 10
    )
    row = found.rows[18]
    health = read_log(log)[8].health
    assert (row["framework"], row["stage"]) == ("co-training", 9)
    assert row["overlap_ratio"] == pytest.approx(100 * (health.agreement or 0))
    assert row["distance"] == pytest.approx(health.distance)
    assert (row["published_overlap_ratio"], row["published_distance"]) == (96.6, 5453)
    assert found.rows[17]["published_distance"] is None
    line = found.figure.axes[0].lines[1]
    assert line.get_label() == "co-training"
    assert np.asarray(line.get_xydata())[8].tolist() == pytest.approx([90, row["overlap_ratio"]])
