"""The trainer with AdamW, averaged weights and the adaptive weight of unlabelled crops."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from samples import make_batch, make_method

from tracoco.config import Config, parse_config
from tracoco.data.batch import Batch
from tracoco.methods import METHODS, method_class, method_row
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import Method
from tracoco.processes import StopRequest
from tracoco.runs.folder import load_checkpoint, method_state
from tracoco.runs.log import StepRecord, read_log
from tracoco.training import pseudo_label_monitor as unlabelled_weight
from tracoco.training.distributed import Process
from tracoco.training.fit_result import FitResult
from tracoco.training.logger import RunLogger
from tracoco.training.trainer import Trainer, Validate

ALONE = Process(0, 1, torch.device("cpu"))
SHARES = {"background": 0.5, "organ": 0.5}
STEPS = 12


def recipe(**training: object) -> Config:
    values: dict[str, Any] = {
        "training": {
            "steps": STEPS,
            "save_every": 5,
            "validate_every": 4,
            "ema_decay": 0.8,
            "unlabelled_weight": "adaptive",
        }
        | training,
        "optimizer": {"name": "adamw", "clip_norm": 1.0},
    }
    return parse_config(values, "test")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions at every other step, and labelled crops that are known at once."""
    monkeypatch.setattr(unlabelled_weight, "CHECK_EVERY", 2)
    monkeypatch.setattr(unlabelled_weight, "WINDOW", 1)
    monkeypatch.setattr(unlabelled_weight, "KNOWN_DICE", 0.0)
    monkeypatch.setattr(unlabelled_weight, "SETTLED", 2.0)
    monkeypatch.setattr(unlabelled_weight, "AGREED", 0.0)
    monkeypatch.setattr(unlabelled_weight, "FORGOTTEN", 2.0)
    monkeypatch.setattr(unlabelled_weight, "ABSENT", 0.0)
    monkeypatch.setattr(unlabelled_weight, "DOUBTED", -2.0)
    monkeypatch.setattr(unlabelled_weight, "TRUSTED", -1.0)
    monkeypatch.setattr(unlabelled_weight, "RISE", 0.25)


class Lines:
    """A display that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps = 0

    def show(self, record: StepRecord) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Keep a line."""
        self.said.append(line)


def trainer(folder: Path, name: str = "tracoco", config: Config | None = None) -> Trainer:
    folder.mkdir(exist_ok=True)
    return Trainer(
        make_method(name, steps=STEPS),
        config or recipe(),
        folder,
        ALONE,
        identity={},
        labelled_fractions=SHARES,
    )


def run(
    made: Trainer, stop: int = STEPS, validate: Validate | None = None, lines: Lines | None = None
) -> FitResult:
    def batches() -> Iterator[Batch]:
        return (make_batch(seed=step) for step in range(made.step, stop))

    with RunLogger(made.folder, made.step, SHARES, lines or Lines(), advice="rest") as logger:
        return made.fit(batches(), logger, StopRequest(), validate)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["tracoco", "mean-teacher", "bcp"])
def test_a_resumed_run_is_bitwise_the_same(tmp_path: Path, name: str) -> None:
    whole = trainer(tmp_path / "whole", name)
    run(whole)
    run(trainer(tmp_path / "parts", name), stop=8)  # killed: the last checkpoint is that of step 5
    resumed = trainer(tmp_path / "parts", name)
    resumed.resume()
    assert resumed.step == 5
    run(resumed)
    one, two = (load_checkpoint(tmp_path / part / "last.pt") for part in ("whole", "parts"))
    assert one["unlabelled"] == two["unlabelled"]
    for kind in ("method", "averaged"):
        assert one[kind].keys() == two[kind].keys()
        for key, value in one[kind].items():
            torch.testing.assert_close(two[kind][key], value, rtol=0, atol=0, msg=key)
    logs = [read_log(tmp_path / part / "log.jsonl") for part in ("whole", "parts")]
    assert [entry.unlabelled for entry in logs[0]] == [entry.unlabelled for entry in logs[1]]
    last = logs[0][-1].unlabelled
    assert last is not None
    assert last.weight > 0


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in METHODS
        if method_row(name).trained_by_unlabelled and method_class(name).adaptive
    ],
)
def test_without_weight_no_method_learns_from_unlabelled_crops(tmp_path: Path, name: str) -> None:
    # Labelled crops are not known yet: whatever the unlabelled ones hold, the first step is the
    # same up to what their pass does to statistics and noise, so the terms must be zero.
    made = trainer(tmp_path, name)
    run(made, stop=2)
    for entry in read_log(tmp_path / "log.jsonl"):
        assert entry.unlabelled is not None
        assert entry.unlabelled.weight == 0
        taught = {k: v for k, v in entry.terms.items() if k not in made.method.labelled_terms}
        assert set(taught.values()) <= {0.0}
        assert entry.terms["supervised"] != 0


def weights_of(log: list[StepRecord]) -> list[float]:
    return [entry.unlabelled.weight for entry in log if entry.unlabelled]


@pytest.mark.usefixtures("quick")
def test_the_weight_rises_once_labelled_crops_are_known_and_it_is_said(tmp_path: Path) -> None:
    lines = Lines()
    run(trainer(tmp_path), lines=lines)
    log = read_log(tmp_path / "log.jsonl")
    weights = weights_of(log)
    # Two windows of one decision until it is known, after steps 2 and 4; then 0.25 more at each.
    assert weights == [0, 0, 0, 0, 0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75]
    # What does not count is not computed.
    every = {"supervised", "crc", "translation", "entropy"}
    assert [set(each.terms) for each in log] == [{"supervised"}] * 6 + [every] * 6
    assert sum("unlabelled crops count from here on" in line for line in lines.said) == 1
    assert load_checkpoint(tmp_path / "supervised-4.pt")["step"] == 4


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("supervised_is_better", [True, False])
def test_a_run_ends_with_the_better_of_its_last_and_its_supervised_weights(
    tmp_path: Path, *, supervised_is_better: bool
) -> None:
    made = trainer(tmp_path)
    kept: dict[str, torch.Tensor] = {}

    def validate(method: Method) -> float:
        state = method.state_dict()
        early = bool(kept) and all(torch.equal(state[name], kept[name]) for name in kept)
        path = tmp_path / "supervised-4.pt"
        if path.exists():
            kept.update(load_checkpoint(path)["averaged"])
        return 0.9 if early == supervised_is_better else 0.5

    result = run(made, validate=validate)
    assert result.ended_with is not None
    assert result.ended_with.supervised == supervised_is_better
    last, early = (load_checkpoint(tmp_path / f"{n}.pt") for n in ("last", "supervised-4"))
    same = all(torch.equal(last["averaged"][key], early["averaged"][key]) for key in kept)
    assert same == supervised_is_better
    assert last["step"] == STEPS


def test_validation_and_prediction_use_the_averaged_weights(tmp_path: Path) -> None:
    seen: list[dict[str, torch.Tensor]] = []

    def validate(method: Method) -> float:
        seen.append({key: value.clone() for key, value in method.state_dict().items()})
        return 0.5

    made = trainer(tmp_path, "supervised")
    run(made, validate=validate)
    checkpoint = load_checkpoint(tmp_path / "last.pt")
    averaged, raw = method_state(checkpoint), method_state(checkpoint, "raw")
    assert any(not torch.equal(averaged[key], raw[key]) for key in raw)
    assert all(torch.equal(averaged[key], seen[-1][key]) for key in averaged)
    assert all(torch.equal(made.method.state_dict()[key], raw[key]) for key in raw)


def test_without_unlabelled_crops_there_is_no_weight_to_log(tmp_path: Path) -> None:
    config = recipe()
    data = config.data.model_copy(update={"unlabelled_batch": 0})
    run(trainer(tmp_path, "supervised", config.model_copy(update={"data": data})), stop=2)
    assert all(entry.unlabelled is None for entry in read_log(tmp_path / "log.jsonl"))


@pytest.mark.usefixtures("quick")
def test_a_run_that_loses_a_structure_goes_back_to_its_supervised_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def health(*_: object) -> PseudoLabelHealth:
        present = 0.5 if lines.steps < 8 else 0.0
        lines.steps += 1
        return PseudoLabelHealth((1 - present, present))

    lines = Lines()
    monkeypatch.setattr(unlabelled_weight, "FRACTION_WINDOW", 1)
    made = trainer(tmp_path)
    monkeypatch.setattr(type(made.method), "health", health)
    run(made, lines=lines)
    said = [line for line in lines.said if "have lost 'organ'" in line]
    assert len(said) == 1
    log = read_log(tmp_path / "log.jsonl")
    assert [entry.step for entry in log if entry.lost] == [9]
    assert weights_of(log)[-2:] == [0, 0]
    assert made.unlabelled
    assert made.unlabelled.limit == 0.5
    # After step 9 the weights were those of step 4, and two steps followed.
    early = load_checkpoint(tmp_path / "supervised-4.pt")
    state = load_checkpoint(tmp_path / "last.pt")["optimizer"]["state"]
    assert {int(each["step"]) for each in state.values()} == {early["step"] + 2}


@pytest.mark.usefixtures("quick")
def test_resumed_from_before_it_went_back_a_run_is_bitwise_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Known at step 4, lost at step 10, known again at step 14: killed at step 15, it goes on from
    # step 5, by when the folder has the weights of both beginnings.
    monkeypatch.setattr(unlabelled_weight, "FRACTION_WINDOW", 1)
    config = recipe(steps=20, save_every=5)

    def lost_at_step_10(made: Trainer) -> Trainer:
        def health(*_: object) -> PseudoLabelHealth:
            present = 0.0 if made.step in (8, 9) else 0.5
            return PseudoLabelHealth((1 - present, present))

        monkeypatch.setattr(made.method, "health", health)
        return made

    whole = lost_at_step_10(trainer(tmp_path / "whole", config=config))
    run(whole, stop=20)
    killed = lost_at_step_10(trainer(tmp_path / "parts", config=config))
    kept = killed.save
    monkeypatch.setattr(
        killed, "save", lambda name: (killed.step > 5 and name == "last.pt") or kept(name)
    )
    run(killed, stop=15)
    resumed = lost_at_step_10(trainer(tmp_path / "parts", config=config))
    resumed.resume()
    assert resumed.step == 5
    assert (tmp_path / "parts" / "supervised-14.pt").exists()
    run(resumed, stop=20)
    one, two = (load_checkpoint(tmp_path / part / "last.pt") for part in ("whole", "parts"))
    assert one["unlabelled"] == two["unlabelled"]
    assert one["unlabelled"]["limit"] == 0.5
    for key, value in one["method"].items():
        torch.testing.assert_close(two["method"][key], value, rtol=0, atol=0, msg=key)
