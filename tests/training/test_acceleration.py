import pytest
import torch
from half_precision import BF16_IS_RIGHT
from samples import make_batch, make_method
from torch import Tensor, nn

from tracoco.config import TrainingConfig
from tracoco.methods import METHODS
from tracoco.networks.network import Stages
from tracoco.training import acceleration as precision
from tracoco.training.acceleration import Acceleration, accelerate

CPU = torch.device("cpu")
CROPS = (1, 1, 16, 16, 16)


def test_the_default_settings_change_nothing_and_say_nothing() -> None:
    method = make_method("tracoco")
    assert accelerate(method, TrainingConfig(), CPU, CROPS) == Acceleration()
    assert not any(part.checkpointing for part in method.modules() if isinstance(part, Stages))
    assert all(weight.is_contiguous() for weight in method.parameters())


@pytest.mark.parametrize("dimensions", [2, 3])
def test_channels_last_gives_the_same_losses(dimensions: int) -> None:
    order = {2: torch.channels_last, 3: torch.channels_last_3d}[dimensions]
    losses = []
    for channels_last in (False, True):
        method = make_method("mean-teacher", dimensions)
        wanted = TrainingConfig(channels_last=channels_last)
        made = accelerate(method, wanted, CPU, CROPS[: dimensions + 2])
        assert made == Acceleration(channels_last=channels_last)
        kernels = [weight for weight in method.parameters() if weight.dim() == dimensions + 2]
        wide = [weight for weight in kernels if weight.shape[1] > 1]
        assert all(weight.is_contiguous(memory_format=order) == channels_last for weight in wide)
        torch.manual_seed(0)
        terms = method(make_batch(dimensions), 1).terms
        torch.stack(list(terms.values())).sum().backward()
        losses.append([float(term.detach()) for term in terms.values()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


class Viewing(nn.Module):
    """A network that takes its maps apart by a view, which needs them in the usual order."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(1, 2, 3, padding=1)
        self.convolution = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, crops: Tensor) -> Tensor:
        maps: Tensor = self.convolution(self.enter(crops))
        return maps.view(len(maps), -1).view(maps.shape)


def test_a_network_that_cannot_take_channels_last_keeps_the_usual_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method, network = make_method("supervised", 2), Viewing()
    monkeypatch.setattr(method, "network", network)
    made = accelerate(method, TrainingConfig(channels_last=True), CPU, CROPS[:4])
    assert not made.channels_last
    assert len(made.notes) == 1
    assert made.notes[0].startswith("training.channels_last is left out: Viewing cannot compute")
    assert network.convolution.weight.is_contiguous()


def test_a_precision_that_does_not_work_here_becomes_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make_method("supervised")
    right = "bf16" if BF16_IS_RIGHT else "fp32"
    assert accelerate(method, TrainingConfig(precision="bf16"), CPU).precision == right

    class Unable:
        def __init__(self, *_: object, **__: object) -> None:
            raise RuntimeError("unsupported")

    monkeypatch.setattr(torch, "autocast", Unable)
    made = accelerate(method, TrainingConfig(precision="fp16"), CPU)
    assert (made.precision, made.dtype) == ("fp32", None)
    assert made.notes == (
        "training.precision=fp16 does not work, or not rightly, on cpu: fp32 is used",
    )


def test_a_precision_whose_gradients_are_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    true = precision._weight_gradient
    predictions = iter([float("nan"), 0.0])

    def unwritten(layer: nn.Module, result: Tensor) -> Tensor:
        found = true(layer, result)
        return found if result.dtype == torch.float32 else found.fill_(next(predictions))

    monkeypatch.setattr(precision, "_weight_gradient", unwritten)
    assert not precision.computes(torch.bfloat16, CPU)
    assert not precision.computes(torch.bfloat16, CPU)
    # So that it is the gradient which decided, on a CPU where bf16 is wrong by itself too.
    monkeypatch.setattr(precision, "_weight_gradient", lambda *_: torch.ones(1))
    assert precision.computes(torch.bfloat16, CPU)


def test_without_a_compiler_the_networks_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_(*_: object, **__: object) -> None:
        raise RuntimeError("No working C++ compiler found.\nmore of it")

    monkeypatch.setattr(torch, "compile", compile_)
    made = accelerate(make_method("supervised"), TrainingConfig(compile=True), CPU)
    assert not made.compile
    assert made.notes == (
        "training.compile does not work here and is left out: No working C++ compiler found",
    )


@pytest.mark.parametrize("name", METHODS)
def test_checkpointing_changes_no_gradient_of_any_method(name: str) -> None:
    found = []
    for checkpointing in (False, True):
        method = make_method(name, 2)
        accelerate(method, TrainingConfig(checkpointing=checkpointing), CPU)
        torch.manual_seed(0)
        torch.stack(list(method(make_batch(2), 20).terms.values())).sum().backward()
        found.append([weight.grad for weight in method.parameters() if weight.grad is not None])
    for plain, lean in zip(*found, strict=True):
        assert torch.equal(plain, lean)


def test_a_gpu_has_the_fused_optimizer_and_a_cpu_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make_method("supervised")
    assert not accelerate(method, TrainingConfig(), CPU).fused_optimizer
    assert accelerate(method, TrainingConfig(), torch.device("cuda")).fused_optimizer
    monkeypatch.setattr(precision, "computes", lambda *_: True)
    made = accelerate(method, TrainingConfig(precision="fp16"), torch.device("cuda"))
    assert made.dtype == torch.float16
