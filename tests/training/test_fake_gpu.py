"""Every method takes a step on a fake GPU: devices, types and shapes are those of a real one."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from fake_gpu import (
    GPU,
    GPU_CAN_BE_FAKED,
    DeviceMismatchError,
    fake_gpu,
    leaf_gradients,
    on_gpu,
)
from samples import make_batch, make_method, measured
from scripts.gpu_check import paper_presets
from torch import Tensor

from tracoco.config import Config, InferenceConfig, OptimizerConfig, TrainingConfig
from tracoco.data.batch import Batch
from tracoco.inference.predictor import Predictor
from tracoco.methods import METHODS
from tracoco.methods.masked_autoencoder import MaskedAutoencoder
from tracoco.methods.method import Method, StepOutput, evaluating
from tracoco.presets import load_config
from tracoco.processes import StopRequest
from tracoco.project.plan import Plan
from tracoco.runs.build import resolved, run_crop, run_method
from tracoco.runs.log import StepRecord
from tracoco.training.distributed import Process
from tracoco.training.step_cost import noise_batch
from tracoco.training.trainer import Trainer

pytestmark = pytest.mark.skipif(
    not GPU_CAN_BE_FAKED, reason="torch's table of device guards cannot be reached here"
)
LATE = 125
"""A step of a run of 30 that goes on: past all ramps; `mc-caussl` and `bcp-caussl` search."""


class Recorder:
    """A trainer on the fake GPU that keeps the terms of its last step."""

    def __init__(self, method: Method, config: Config) -> None:
        self.method = on_gpu(method)
        self.trainer = Trainer(self.method, config, Path(), Process(0, 1, GPU), identity={})
        self.compute = self.trainer.wrapped
        self.trainer.wrapped = self.keep
        self.terms: dict[str, Tensor] = {}

    def keep(self, batch: Batch, step: int) -> StepOutput:
        output = self.compute(batch, step)
        self.terms = output.terms
        return output

    def take_step(self, batch: Batch, step: int = 0) -> StepRecord:
        self.trainer.step = step
        record, _ = self.trainer._take_step(batch.to(GPU), StopRequest())
        return record


def settings(**training: Any) -> Config:
    every_term = TrainingConfig(steps=1000, unlabelled_weight="scheduled", **training)
    return Config(training=every_term, optimizer=OptimizerConfig(clip_norm=1.0))


def check_step(recorder: Recorder, record: StepRecord) -> None:
    """All that a step leaves behind is on the GPU, and every trained weight has moved there."""
    assert recorder.terms
    for name, term in recorder.terms.items():
        assert (term.device, term.dtype, term.shape) == (GPU, torch.float32, ()), name
        assert term.requires_grad, name
    assert set(record.terms) == set(recorder.terms)
    assert all(isinstance(value, float) for value in measured(record.health).values())
    optimizer = recorder.trainer.optimizer
    assert all(group["fused"] for group in optimizer.param_groups)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight in weights:
        assert weight.device == GPU
        assert weight.grad is None or weight.grad.device == GPU
    assert any(weight.grad is not None for weight in weights)


def check_predictions(method: Method, batch: Batch, classes: int) -> None:
    if isinstance(method, MaskedAutoencoder):
        return  # it has no segmentation
    crops = batch.first.values.to(GPU)
    with evaluating(method):
        for probability in (method.predict(crops), *method.predict_members(crops)):
            assert (probability.device, probability.dtype) == (GPU, torch.float32)
            assert probability.shape == (len(crops), classes, *crops.shape[2:])


@pytest.mark.parametrize("name", METHODS)
def test_in_3d_with_two_classes_in_bf16_and_channels_last(name: str) -> None:
    method, batch = make_method(name), make_batch()
    with fake_gpu():
        recorder = Recorder(method, settings(precision="bf16", channels_last=True))
        acceleration = recorder.trainer.acceleration
        assert (acceleration.precision, acceleration.notes) == ("bf16", ())
        assert acceleration.channels_last
        check_step(recorder, recorder.take_step(batch))
        check_predictions(recorder.method, batch, classes=2)


@pytest.mark.parametrize("name", METHODS)
def test_in_2d_with_four_classes_in_fp16_and_checkpointing_late_in_a_run(name: str) -> None:
    method, batch = make_method(name, 2, 4), make_batch(2, 4)
    with fake_gpu():
        recorder = Recorder(method, settings(precision="fp16", checkpointing=True))
        acceleration = recorder.trainer.acceleration
        assert (acceleration.precision, acceleration.notes) == ("fp16", ())
        assert acceleration.checkpointing
        assert recorder.trainer.scaler.is_enabled()
        check_step(recorder, recorder.take_step(batch, LATE))
        check_predictions(recorder.method, batch, classes=4)


def make_plan(dimensions: Literal[2, 3], classes: int) -> Plan:
    return Plan(
        dimensions=dimensions,
        channels=1,
        label_values=tuple(range(classes)),
        class_names=tuple(map(str, range(classes))),
        slice_axis=2 if dimensions == 2 else None,
        spacing_mm=(1, 1, 1),
        crop=(1, 32, 32) if dimensions == 2 else (32, 32, 32),
    )


@pytest.mark.parametrize(
    "preset",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.endswith("-as-released") else [])
        for name in paper_presets()
    ],
)
def test_a_preset_of_the_paper_with_its_own_network_and_crop(preset: str) -> None:
    plan = make_plan(2, 4) if preset.startswith("acdc") else make_plan(3, 2)
    config = resolved(load_config(preset), plan)
    batch = noise_batch(config, plan, run_crop(config, plan)[-plan.dimensions :])
    method = run_method(config, plan)
    with fake_gpu():
        recorder = Recorder(method, config)
        check_step(recorder, recorder.take_step(batch))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_whole_scan_is_predicted_in_windows(dimensions: Literal[2, 3]) -> None:
    method, plan = make_method("tracoco", dimensions), make_plan(dimensions, 2)
    shape = (40, 44, 4 if dimensions == 2 else 36)
    scan = np.random.default_rng(0).random(shape, dtype=np.float32)
    with fake_gpu():
        predictor = Predictor(on_gpu(method).eval(), plan, plan.crop, InferenceConfig(), GPU)
        prediction = predictor(scan, (1, 1, 1), maps=["probability", "disagreement"])
    assert prediction.label.shape == scan.shape


def with_mistake(batch: Batch, mistake: str) -> Batch:
    """What a method that forgets to move something would do with its batch."""
    values, places = batch.first.values, torch.arange(2)
    match mistake:
        case "mask":
            values = values.masked_fill(torch.zeros(values.shape, dtype=torch.bool), 0)
        case "crops":
            values = torch.zeros(values.shape)  # the layers that take them are on the GPU
        case "weights":
            values = values * torch.ones(len(values), 1, 1, 1, 1)
        case "places":
            torch.zeros(2)[places.to(values.device)]
        case "generator":
            torch.rand(2, device=values.device, generator=torch.Generator())
        case "labels":
            batch = replace(batch, labels=torch.zeros(batch.labels.shape, dtype=torch.long))
        case "none":  # torch takes indices and single numbers from the CPU
            values = values[torch.arange(len(values))] * torch.ones(())
    return replace(batch, first=replace(batch.first, values=values))


def take_step_with(mistake: str) -> Recorder:
    with fake_gpu():
        recorder = Recorder(make_method("supervised"), settings())
        compute = recorder.compute
        recorder.compute = lambda batch, step: compute(with_mistake(batch, mistake), step)
        recorder.take_step(make_batch())
    return recorder


@pytest.mark.parametrize("mistake", ["mask", "crops", "weights", "places", "generator", "labels"])
def test_a_method_that_mixes_devices_fails(mistake: str) -> None:
    with pytest.raises(DeviceMismatchError):
        take_step_with(mistake)


def test_what_torch_allows_between_devices_does_not_fail() -> None:
    recorder = take_step_with("none")
    (supervised,) = recorder.terms.values()
    assert supervised.device == GPU
    (parameters,) = (group["params"] for group in recorder.trainer.optimizer.param_groups)
    assert all(weight.grad is not None and weight.grad.device == GPU for weight in parameters)


def test_a_buffer_that_stayed_behind_fails() -> None:
    with fake_gpu():
        recorder = Recorder(make_method("cac"), settings())
        bank = torch.zeros(8, 128)
        recorder.method.contrast.bank_features = bank  # type: ignore[union-attr]  # of CAC
        with pytest.raises(DeviceMismatchError):
            recorder.take_step(make_batch())


def test_the_gradients_of_the_harness_are_those_of_torch() -> None:
    method, batch = make_method("tracoco"), make_batch()
    loss = torch.stack(list(method(batch, 0).terms.values())).sum()
    found = {id(weight): gradient for weight, gradient in leaf_gradients(loss)}
    loss.backward()
    for name, weight in method.named_parameters():
        torch.testing.assert_close(found.get(id(weight)), weight.grad, msg=name)


def test_afterwards_nothing_of_the_fake_gpu_is_left() -> None:
    before = torch.nn.Module.to, Tensor.backward, torch.autograd.grad, torch.cuda.synchronize
    with fake_gpu():
        assert torch.zeros(2, device=GPU).device == GPU
    assert before == (
        *(torch.nn.Module.to, Tensor.backward, torch.autograd.grad),
        torch.cuda.synchronize,
    )
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    assert weight.grad is not None
