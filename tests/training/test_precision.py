import copy
from pathlib import Path

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.config import TrainingConfig
from tracoco.methods.method import Method
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder
from tracoco.training import acceleration as precision
from tracoco.training import bf16_layers as layer_trials
from tracoco.training.acceleration import Acceleration, accelerate
from tracoco.training.bf16_layers import is_right, stays_in_fp32, trained_convolutions, try_layers
from tracoco.training.train import train

CPU = torch.device("cpu")
BATCH = (4, 1, 16, 16, 16)
AUTO, BF16 = TrainingConfig(), TrainingConfig(precision="bf16")
SMALL = "1 of 7 convolutions stay in fp32, since torch computes their gradients wrongly"


def kept(method: Method) -> list[nn.Module]:
    return [layer for layer in trained_convolutions(method) if stays_in_fp32(layer)]


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU with instructions for bf16, on which it is faster."""
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: True)
    monkeypatch.setattr(precision, "is_faster", lambda *_: True)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("wanted", [AUTO, BF16])
def test_the_layer_over_the_smallest_maps_stays_in_fp32(wanted: TrainingConfig) -> None:
    method = make_method("supervised")
    made = accelerate(method, wanted, CPU, BATCH)
    assert made.precision == "bf16"
    assert made.notes[0].startswith(f"precision: bf16; {SMALL}")
    (layer,) = kept(method)  # 3x3x3 over 2x2x2
    assert isinstance(layer, nn.Conv3d)
    assert (layer.kernel_size, layer.in_channels) == ((3, 3, 3), 32)
    assert is_right(layer, (2, 32, 2, 2, 2))  # though free memory is full of NaN
    assert len(kept(copy.deepcopy(method))) == 1


@pytest.mark.usefixtures("fast")
def test_no_layer_over_larger_maps_does() -> None:
    method = make_method("supervised")
    made = accelerate(method, AUTO, CPU, (2, 1, 32, 32, 32))
    assert (made.precision, made.notes) == ("bf16", ("precision: bf16",))
    assert not kept(method)


def test_a_gradient_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = layer_trials._gradients

    def unwritten(layer: nn.Module, maps: Tensor, result: Tensor, direction: Tensor) -> object:
        found = true(layer, maps, result, direction)
        layer_trials._fill_free_memory([found[1].numel()])  # the true one may lie there
        free = torch.empty_like(found[1])
        return found if result.dtype == torch.float32 else (found[0], free)

    layer = nn.Conv3d(4, 8, 3, bias=False)
    assert is_right(layer, (2, 4, 8, 8, 8))
    monkeypatch.setattr(layer_trials, "_gradients", unwritten)
    assert not is_right(layer, (2, 4, 8, 8, 8))


def test_a_discriminator_cannot_be_tried_and_a_teacher_needs_no_trial() -> None:
    trials = try_layers(make_method("sassnet", 2), BATCH[:4])
    assert len(trials.untried) == 5
    assert "5 of 12 convolutions stay in fp32, since they see no whole crop" in trials.note
    assert not try_layers(make_method("mean-teacher", 2), BATCH[:4]).untried


def test_a_cpu_without_bf16_or_one_that_is_slow_at_it_computes_in_fp32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert accelerate(make_method("tracoco"), AUTO, CPU, BATCH) == Acceleration()
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: True)
    monkeypatch.setattr(precision, "is_faster", lambda *_: False)
    method = make_method("tracoco")
    assert accelerate(method, AUTO, CPU, BATCH) == Acceleration()
    assert not kept(method)


@pytest.mark.usefixtures("fast")
def test_without_crops_or_where_another_process_is_slow_it_is_fp32() -> None:
    assert accelerate(make_method("supervised"), AUTO, CPU) == Acceleration()
    made = accelerate(make_method("supervised"), AUTO, CPU, BATCH, agree=lambda _: False)
    assert made == Acceleration()


def test_passes_are_timed_for_each_kind_of_network(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make_method("mc-net", 2)  # its network gives several answers
    before = {name: value.clone() for name, value in method.state_dict().items()}
    true = precision._seconds
    for faster in (True, False):
        times = {True: 1.0, False: 1.3 if faster else 1.1}

        def seconds(
            networks: list[nn.Module], maps: Tensor, *, half: bool, times: dict[bool, float] = times
        ) -> float:
            assert true(networks, maps, half=half) >= 0
            return times[half]

        with monkeypatch.context() as patch:
            patch.setattr(precision, "_seconds", seconds)
            assert precision.is_faster(method.trained_networks(), BATCH[:4]) is faster
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


@pytest.mark.parametrize("native", [True, False])
def test_a_gpu_takes_bf16_where_it_has_it(monkeypatch: pytest.MonkeyPatch, *, native: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: native)
    monkeypatch.setattr(precision, "computes", lambda *_: True)
    made = accelerate(make_method("supervised"), AUTO, torch.device("cuda"), BATCH)
    assert made.precision == ("bf16" if native else "fp32")
    assert made.notes == (("precision: bf16",) if native else ())


def test_a_resumed_run_takes_what_it_took_before(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(
        None, ["training.steps=2", "network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]"]
    )
    monkeypatch.setattr(precision, "is_faster", lambda *_: True)
    for able in (True, False):
        monkeypatch.setattr(precision, "cpu_has_bf16", lambda able=able: able)
        folder = RunFolder(tmp_path / str(able))
        train(project, config, folder.root, device="cpu")
        before = folder.facts().computed
        assert before is not None
        assert before.precision == ("bf16" if able else "fp32")
        monkeypatch.setattr(precision, "cpu_has_bf16", lambda able=able: not able)
        train(project, config, folder.root, device="cpu", resume=True)
        assert folder.facts().computed == before


def test_a_step_in_bf16_has_nearly_the_losses_of_fp32() -> None:
    method = make_method("tracoco")
    accelerate(method, BF16, CPU, BATCH)
    losses = []
    for half in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            terms = method(make_batch(), 30).terms
        assert all(term.dtype == torch.float32 for term in terms.values())
        gradients = torch.autograd.grad(
            torch.stack(list(terms.values())).sum(),
            [weight for network in method.trained_networks() for weight in network.parameters()],
        )
        assert all(gradient.isfinite().all() for gradient in gradients)
        losses.append([float(term.detach()) for term in terms.values()])
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
