import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import make_batch, make_method
from torch import nn

from tracoco.config import Config, parse_config
from tracoco.data.batch import Batch
from tracoco.errors import Stopped, UserError
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import Method, StepOutput
from tracoco.methods.parts.co_training import CoTraining
from tracoco.methods.supervised import Supervised
from tracoco.processes import StopRequest
from tracoco.runs.folder import load_checkpoint
from tracoco.runs.log import read_log
from tracoco.training.acceleration import Acceleration
from tracoco.training.distributed import Process
from tracoco.training.fit_result import FitResult
from tracoco.training.logger import RunLogger, SilentDisplay
from tracoco.training.optimizer import MOST_SKIPPED
from tracoco.training.trainer import Trainer, Validate, step_seed

ALONE = Process(0, 1, torch.device("cpu"))
SHARES = {"background": 0.5, "organ": 0.5}


def settings(steps: int = 6, **optimizer: object) -> Config:
    training = {
        "steps": steps,
        "save_every": 3,
        "validate_every": 2,
        "unlabelled_weight": "scheduled",  # so that all terms count from the first step
    }
    return parse_config({"training": training, "optimizer": optimizer}, "test")


def trainer(folder: Path, name: str = "supervised", config: Config | None = None) -> Trainer:
    config = config or settings()
    identity = {"config": config.model_dump(mode="json"), "splits": "abc"}
    return Trainer(make_method(name), config, folder, ALONE, identity=identity)


def some_batches(start: int, stop: int) -> Iterator[Batch]:
    return (make_batch(seed=step) for step in range(start, stop))


def run(
    made: Trainer,
    stop: int = 6,
    validate: Validate | None = None,
    request: StopRequest | None = None,
) -> FitResult:
    with RunLogger(made.folder, made.step, SHARES, SilentDisplay(), advice="rest") as logger:
        batches = some_batches(made.step, stop)
        return made.fit(batches, logger, request or StopRequest(), validate)


def weights(method: Method) -> list[torch.Tensor]:
    return [value.clone() for value in method.state_dict().values()]


@pytest.mark.parametrize("name", ["supervised", "tracoco"])
def test_resumed_from_a_checkpoint_the_weights_are_bitwise_equal(tmp_path: Path, name: str) -> None:
    whole = trainer(tmp_path / "whole", name)
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    run(whole)
    # Killed after step 5: the last checkpoint is that of step 3.
    run(trainer(tmp_path / "parts", name), stop=5)
    resumed = trainer(tmp_path / "parts", name)
    resumed.resume()
    assert resumed.step == 3
    run(resumed)
    for a, b in zip(weights(whole.method), weights(resumed.method), strict=True):
        assert torch.equal(a, b)
    assert [entry.step for entry in read_log(tmp_path / "parts" / "log.jsonl")] == list(range(6))


def test_noise_differs_between_steps_seeds_and_ranks() -> None:
    seeds = {step_seed(*key) for key in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))}
    assert len(seeds) == 4


def test_the_rate_falls_polynomially_to_almost_nothing(tmp_path: Path) -> None:
    run(trainer(tmp_path, config=settings(name="sgd", lr=0.1, poly_power=0.9)))
    rates = [entry.rate for entry in read_log(tmp_path / "log.jsonl")]
    assert rates == pytest.approx([0.1 * (1 - step / 6) ** 0.9 for step in range(6)])


def test_best_is_kept_on_validation_and_survives_a_resume(tmp_path: Path) -> None:
    scores = iter([0.5, 0.7, 0.6])
    made = trainer(tmp_path)
    run(made, validate=lambda _: next(scores))
    assert load_checkpoint(tmp_path / "best.pt")["step"] == 4
    log = read_log(tmp_path / "log.jsonl")
    found = {entry.step: entry.validation_dice for entry in log if entry.validation_dice}
    assert found == {1: 0.5, 3: 0.7, 5: 0.6}
    again = trainer(tmp_path)
    again.resume()
    assert again.best == 0.7
    assert (again.method.training, made.method.training) == (True, True)


def test_without_validation_there_is_no_best(tmp_path: Path) -> None:
    run(trainer(tmp_path))
    assert (tmp_path / "last.pt").exists()
    assert not (tmp_path / "best.pt").exists()


def test_a_stop_finishes_the_step_and_saves(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    request = StopRequest()

    def stopped(_: Method) -> float:
        request.signal = 15
        return 0.5

    result = run(made, validate=stopped, request=request)
    # Asked during the validation after step 2, it takes step 3, saves and ends.
    assert result == FitResult(steps=3, signal=15)
    assert load_checkpoint(tmp_path / "last.pt")["step"] == 3


@pytest.mark.parametrize("at", [0, 1])
def test_a_stop_does_not_wait_for_a_validation_and_the_resumed_run_begins_with_it(
    tmp_path: Path, at: int
) -> None:
    """The signal comes while cases are scored (0), or during the step before (1)."""
    scores = {2: 0.5, 4: 0.7, 6: 0.6}
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = trainer(tmp_path / "whole")
    run(whole, validate=lambda _: scores[whole.step])
    made, request = trainer(tmp_path / "parts"), StopRequest()

    def validate(_: Method) -> float:
        if at == 0 and made.step == 4:
            request.signal = 15
            raise Stopped("stopped", 15)  # as `mean_dice` does before its next windows
        request.signal = 15 if made.step == 2 and at else 0
        return scores[made.step]

    first = run(made, validate=validate, request=request)
    assert first == FitResult(steps=4 if at == 0 else 3, signal=15)
    resumed = trainer(tmp_path / "parts")
    resumed.resume()
    run(resumed, validate=lambda _: scores[resumed.step])
    for a, b in zip(weights(whole.method), weights(resumed.method), strict=True):
        assert torch.equal(a, b)
    logs = [read_log(tmp_path / name / "log.jsonl") for name in ("whole", "parts")]
    kept = [[(each.step, each.loss, each.validation_dice) for each in log] for log in logs]
    assert kept[0] == kept[1]
    best = [load_checkpoint(tmp_path / name / "best.pt") for name in ("whole", "parts")]
    assert [(each["step"], each["best"]) for each in best] == [(4, 0.7)] * 2


def test_a_stop_in_a_step_that_a_validation_follows_saves_before_it(tmp_path: Path) -> None:
    made, request, asked = trainer(tmp_path), StopRequest(signal=10), list[int]()
    batches = some_batches(0, 6)
    next(batches)
    made.step = 1

    def validate(_: Method) -> float:
        asked.append(made.step)
        return 0.5

    with RunLogger(tmp_path, 1, SHARES, SilentDisplay(), advice="rest") as logger:
        result = made.fit(batches, logger, request, validate)
    assert (result, asked) == (FitResult(steps=2, signal=10), [])
    assert load_checkpoint(tmp_path / "last.pt")["step"] == 2
    resumed = trainer(tmp_path)
    resumed.resume()
    run(resumed, stop=2, validate=validate)
    assert (asked, resumed.best) == ([2], 0.5)


def test_a_loss_that_is_not_finite_names_terms_and_cases_and_touches_nothing(
    tmp_path: Path,
) -> None:
    made = trainer(tmp_path)
    before = [weight.detach().clone() for weight in made.method.parameters()]
    batch = make_batch()
    broken = replace(batch.first, values=batch.first.values * math.nan)
    with pytest.raises(UserError, match=r"supervised nan\) on cases case0, case1, case2, case3"):
        made.fit([replace(batch, first=broken)], None, StopRequest())
    for a, b in zip(before, made.method.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not (tmp_path / "last.pt").exists()


def half_precision(folder: Path, clip_norm: float | None = None) -> tuple[Trainer, nn.BatchNorm3d]:
    """A trainer in fp16 whose network has running statistics."""
    method, norm = make_method("supervised"), nn.BatchNorm3d(1, affine=False)
    assert isinstance(method, Supervised)
    method.network = nn.Sequential(norm, method.network)
    config = settings(400, **({} if clip_norm is None else {"clip_norm": clip_norm}))
    acceleration = Acceleration(precision="fp16")
    return Trainer(method, config, folder, ALONE, identity={}, acceleration=acceleration), norm


class ToldDisplay(SilentDisplay):
    """Keeps what a person would read."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


def overflowing(batch: Batch) -> Batch:
    return replace(batch, first=replace(batch.first, values=batch.first.values * math.inf))


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_a_step_that_overflows_in_fp16_is_skipped_and_logged(
    tmp_path: Path, clip_norm: float | None
) -> None:
    made, norm = half_precision(tmp_path, clip_norm)
    display = ToldDisplay()
    good = list(some_batches(0, 6))
    with RunLogger(made.folder, 0, SHARES, display, advice="rest") as logger:
        made.fit(good[:3], logger, StopRequest())
        before, statistics = weights(made.method), norm.get_buffer("running_mean").clone()
        scale = made.scaler.get_scale()
        made.fit([overflowing(good[3])], logger, StopRequest())
        # The scale of the loss is not at fault where the loss itself overflows.
        assert made.scaler.get_scale() == scale
        assert all(map(torch.equal, before, weights(made.method)))
        assert torch.equal(norm.get_buffer("running_mean"), statistics)
        made.fit(good[4:], logger, StopRequest())
    assert not all(map(torch.equal, before, weights(made.method)))
    assert all(value.isfinite().all() for value in weights(made.method))
    log, cases = read_log(tmp_path / "log.jsonl"), ("case0", "case1", "case2", "case3")
    assert [entry.skipped for entry in log] == [(), (), (), cases, (), ()]
    assert math.isnan(log[3].loss)
    assert math.isnan(log[3].terms["supervised"])
    assert log[3].health == PseudoLabelHealth()
    assert display.said == [
        "step 3: overflow in fp16, the step is skipped: cases case0, case1, case2, case3"
    ]


def test_gradients_that_overflow_are_skipped_by_the_scaler(tmp_path: Path) -> None:
    made, norm = half_precision(tmp_path)
    made.fit(some_batches(0, 1), None, StopRequest())
    before, statistics = weights(made.method), norm.get_buffer("running_mean").clone()
    made.scaler.load_state_dict(made.scaler.state_dict() | {"scale": 2.0**120})
    made.fit(some_batches(1, 2), None, StopRequest())
    assert made.scaler.get_scale() == 2.0**119
    assert made.overflow.skipped == [1]
    assert all(map(torch.equal, before, weights(made.method)))
    assert torch.equal(norm.get_buffer("running_mean"), statistics)


def test_a_run_that_overflows_too_often_in_fp16_ends_and_a_resumed_one_goes_on_counting(
    tmp_path: Path,
) -> None:
    made, _ = half_precision(tmp_path)
    # Every other step: neither are they in a row, nor does the scale fall.
    mostly = [overflowing(make_batch()), make_batch()] * (MOST_SKIPPED - 1)
    made.fit([*mostly, make_batch(), make_batch()], None, StopRequest())
    assert len(made.overflow.skipped) == MOST_SKIPPED - 1
    again, _ = half_precision(tmp_path)
    again.resume()
    assert again.overflow.skipped == made.overflow.skipped
    with pytest.raises(UserError, match=r"20 of the last 200 steps overflowed.*cases case0, case1"):
        again.fit([overflowing(make_batch())], None, StopRequest())


def test_overflows_of_long_ago_do_not_count(tmp_path: Path) -> None:
    made, _ = half_precision(tmp_path)
    made.overflow.skipped = list(range(MOST_SKIPPED - 1))
    made.step = 200 + MOST_SKIPPED
    made.fit([overflowing(make_batch())], None, StopRequest())
    assert made.overflow.skipped == [200 + MOST_SKIPPED]


def test_a_scale_that_falls_for_ever_ends_the_run(tmp_path: Path) -> None:
    made, _ = half_precision(tmp_path)
    made.fit(some_batches(0, 1), None, StopRequest())
    made.scaler.load_state_dict(made.scaler.state_dict() | {"scale": 2.0**-11})
    with pytest.raises(UserError, match="overflowed in fp16"):
        made.fit([overflowing(make_batch())], None, StopRequest())


@pytest.mark.parametrize("name", ["caml", "cac", "patchcl", "dhc", "ss-net", "bcp", "sassnet"])
def test_whatever_a_method_remembers_is_as_it_was_after_a_skipped_step(
    tmp_path: Path, name: str
) -> None:
    config, method = settings(), make_method(name, 2)
    fp16 = Acceleration(precision="fp16")
    made = Trainer(method, config, tmp_path, ALONE, identity={}, acceleration=fp16)
    made.fit([make_batch(2), make_batch(2, seed=1)], None, StopRequest())
    method.before_step = lambda *_: None  # type: ignore[method-assign]  # an inner step stays
    before = copy.deepcopy(method.state_dict())
    made.fit([overflowing(make_batch(2, seed=2))], None, StopRequest())
    assert made.overflow.skipped[-1] == 2
    after = method.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        torch.testing.assert_close(after[key], value, rtol=0, atol=0, equal_nan=True, msg=key)


def test_gradients_are_clipped_per_network(tmp_path: Path) -> None:
    made = trainer(tmp_path, "tracoco", settings(clip_norm=1e-3))
    made.fit(some_batches(0, 1), None, StopRequest())
    for network in made.method.trained_networks():
        gradients = [p.grad.norm() for p in network.parameters() if p.grad is not None]
        assert torch.stack(gradients).norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_bfloat16_trains(tmp_path: Path) -> None:
    config = parse_config({"training": {"steps": 2, "precision": "bf16"}}, "test")
    assert run(trainer(tmp_path, "tracoco", config), stop=2).steps == 2


def test_another_config_or_split_is_not_resumed(tmp_path: Path) -> None:
    run(trainer(tmp_path))
    with pytest.raises(UserError, match="other config"):
        trainer(tmp_path, config=settings(steps=9)).resume()


class Listener(SilentDisplay):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_forced_collapse_is_said_and_logged(tmp_path: Path) -> None:
    config = parse_config({"training": {"steps": 102}, "optimizer": {"lr": 1e-9}}, "test")
    made = trainer(tmp_path, "tracoco", config)
    assert isinstance(made.method, CoTraining)
    with torch.no_grad():
        teachers = [part.get_submodule("network") for part in made.method.averages]
        for network in (*made.method.trained_networks(), *teachers):
            head = network.get_submodule("head")
            head.get_parameter("weight").zero_()
            head.get_parameter("bias").copy_(torch.tensor([9.0, -9.0]))
    listener = Listener()
    batch = make_batch(dimensions=3)
    with RunLogger(tmp_path, 0, SHARES, listener, advice="rest") as logger:
        made.fit([batch] * 102, logger, StopRequest())
    log = read_log(tmp_path / "log.jsonl")
    assert [record.step for record in log if record.collapsed] == [99, 100, 101]
    (line,) = listener.lines
    assert line.startswith("step 99: 'organ' is all but absent from the pseudo-labels")
    assert log[-1].health.class_fractions[0] == 1.0


def test_a_group_of_parameters_can_have_a_rate_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = make_method("supervised")
    groups = [{"params": list(method.parameters()), "rate_factor": 0.1}]
    monkeypatch.setattr(method, "parameter_groups", lambda: groups)
    made = Trainer(method, settings(lr=0.05), tmp_path, ALONE, identity={})
    made.fit(some_batches(0, 1), None, StopRequest())
    assert made.optimizer.param_groups[0]["lr"] == pytest.approx(0.005)


def test_a_method_is_called_before_and_after_the_optimizer_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(tmp_path)
    weight = next(made.method.parameters())
    seen: list[tuple[str, int, torch.Tensor]] = []

    def before(_: Batch, step: int) -> None:
        seen.append(("before", step, weight.detach().clone()))

    def after(_: StepOutput, __: Batch, step: int) -> None:
        seen.append(("after", step, weight.detach().clone()))

    monkeypatch.setattr(made.method, "before_step", before)
    monkeypatch.setattr(made.method, "after_step", after)
    made.fit(some_batches(0, 2), None, StopRequest())
    assert [(name, step) for name, step, _ in seen] == [
        ("before", 0),
        ("after", 0),
        ("before", 1),
        ("after", 1),
    ]
    values = [value for _, _, value in seen]
    assert not torch.equal(values[0], values[1])
    assert torch.equal(values[1], values[2])
