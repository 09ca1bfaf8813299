"""How a step is computed on this device: precision, memory format, compilation, checkpointing."""

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tracoco.config import TrainingConfig
from tracoco.errors import first_line
from tracoco.methods.method import Method, evaluating
from tracoco.networks.from_monai import FAULTS
from tracoco.networks.network import CHANNELS_LAST, Recomputed, Stages
from tracoco.runs.facts import Computed
from tracoco.training.bf16_layers import Trials, follow_autocast, keep_in_fp32, try_layers

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
FASTER = 1.2
"""`auto` takes bf16 where fp32 takes more than this many times as long. It is well above 1, so that
the same settings are seldom computed in two ways because a clock wavered."""
ROUNDS = range(4)
"""The first one is not counted: torch chooses its kernels in it."""
TIMED_BATCH = 2
CPU_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16")
"""Names that torch has for instructions of x86 and of ARM."""
Agree = Callable[[bool], bool]
"""Makes one decision of those of all processes."""


def settle_precision(
    method: Method,
    wanted: str,
    device: torch.device,
    crops: Sequence[int] | None,
    *,
    recorded: str | None = None,
    agree: Agree = bool,
) -> tuple[str, str]:
    """The precision that is used, and what is to be said of it, if anything.

    On a CPU, layers that would be wrong in bf16 are kept in fp32.

    Args:
        method: it is on the CPU still, or on the device already.
        wanted: the setting.
        device: where it is going to be trained.
        crops: shape [B, C, ...] of a batch, if it is known.
        recorded: what `auto` was in this run before it was resumed.
        agree: asked once if `auto` is to be decided, so that all processes take the same.
    """
    decided = recorded if wanted == "auto" else wanted
    if decided == "fp32":
        return "fp32", ""
    if device.type == "cpu" and decided != "fp16" and crops is not None:
        return _settle_on_cpu(method, crops, agree, decided=decided is not None)
    if decided is None:
        decided = "bf16" if agree(_gpu_has_bf16(device)) else "fp32"
    if decided == "fp32":
        return "fp32", ""
    if computes(PRECISIONS[decided], device):
        return decided, "precision: bf16" if wanted == "auto" else ""
    return "fp32", _left_out(decided, device)


def _settle_on_cpu(
    method: Method, crops: Sequence[int], agree: Agree, *, decided: bool
) -> tuple[str, str]:
    """Keep layers in fp32 that are wrong in bf16; unless it is decided, see whether bf16 pays."""
    trials = _tried(method, crops) if decided or cpu_has_bf16() else None
    for layer in trials.in_fp32 if trials else ():
        keep_in_fp32(layer)
    if decided:
        return ("bf16", trials.note) if trials else ("fp32", _left_out("bf16", "cpu"))
    faster = trials is not None and is_faster(method.trained_networks(), crops)
    if agree(faster) and trials:
        return "bf16", trials.note
    for layer in trials.in_fp32 if trials else ():
        follow_autocast(layer)
    return "fp32", ""


def _tried(method: Method, crops: Sequence[int]) -> Trials | None:
    try:
        return try_layers(method, crops)
    except FAULTS:  # a network that cannot do with a single crop, or with zeros
        return None


def _left_out(precision: str, device: torch.device | str) -> str:
    return (
        f"training.precision={precision} does not work, or not rightly, on {device}: fp32 is used"
    )


def cpu_has_bf16() -> bool:
    """Whether this CPU has instructions for bf16; it is slower than fp32 without."""
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.11
        return torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - there was no other way
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in CPU_INSTRUCTIONS)


def _gpu_has_bf16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def is_faster(networks: Sequence[nn.Module], crops: Sequence[int]) -> bool:
    """Whether passes forth and back take clearly less time in bf16 than in fp32, on this CPU."""
    kinds = {type(network): network for network in networks}
    copies = [deepcopy(network).train() for network in kinds.values()]
    with torch.random.fork_rng(devices=[]):
        maps = torch.rand(TIMED_BATCH, *crops[1:])
        rounds = [[_seconds(copies, maps, half=half) for half in (False, True)] for _ in ROUNDS]
    fp32, bf16 = (min(round_[half] for round_ in rounds[1:]) for half in (False, True))
    return fp32 > FASTER * bf16


def _seconds(networks: Sequence[nn.Module], maps: Tensor, *, half: bool) -> float:
    """Time of this process, so that others on the same machine count little."""
    began = time.process_time()
    for network in networks:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            output = network(maps)
        predictions: Sequence[Tensor] = [output] if isinstance(output, Tensor) else output
        torch.stack([prediction.float().mean() for prediction in predictions]).sum().backward()
    return time.process_time() - began


def computes(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a convolution and its gradient can be computed in this precision, and are right."""
    layer = nn.Conv3d(16, 32, 3, padding=1).to(device)
    crops = torch.rand(1, 16, 2, 2, 2, device=device)
    try:
        with torch.autocast(device.type, dtype=dtype):
            result = layer(crops)
        gradient = _weight_gradient(layer, result)
    except RuntimeError:
        return False
    if result.dtype != dtype:  # where it cannot, torch may go on in fp32
        return False
    # On some CPUs with instructions for bf16, torch 2.13 leaves the gradient of such small maps
    # unwritten: whatever was in memory, often NaN.
    expected = _weight_gradient(layer, layer(crops))
    return torch.allclose(gradient, expected, rtol=0.05, atol=0.05)


def _weight_gradient(layer: nn.Module, result: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(result.float().sum(), layer.get_parameter("weight"))
    return gradient


@dataclass(frozen=True, slots=True)
class Acceleration(Computed):
    """What a run really uses; its folder says so."""

    @property
    def dtype(self) -> torch.dtype | None:
        """What autocast computes in, if it is used."""
        return PRECISIONS.get(self.precision)


def accelerate(
    method: Method,
    wanted: TrainingConfig,
    device: torch.device,
    crops: Sequence[int] | None = None,
    *,
    recorded: str | None = None,
    agree: Agree = bool,
) -> Acceleration:
    """Prepare the networks of a method as the settings ask; what fails here is left out and said.

    Args:
        method: it is on the CPU still, or on the device already.
        wanted: the settings.
        device: where it is going to be trained.
        crops: shape [B, C, ...] of a batch, to try its networks on.
        recorded: the precision that `auto` was in this run before it was resumed.
        agree: makes one decision of those of all processes; asked where `auto` is to be decided.
    """
    faults = dict(_faults(method, wanted, device, crops))
    if "channels_last" in faults:
        store_weights(method, channels_last=False)
    precision, note = settle_precision(
        method, wanted.precision, device, crops, recorded=recorded, agree=agree
    )
    if wanted.checkpointing:
        for network in method.trained_networks():
            checkpoint_levels(network)
    return Acceleration(
        precision=precision,
        compile=wanted.compile and "compile" not in faults,
        channels_last=wanted.channels_last and "channels_last" not in faults,
        checkpointing=wanted.checkpointing,
        # On a CPU torch's fused step rounds otherwise, and runs would not be what they were.
        fused_optimizer=device.type == "cuda",
        notes=tuple(line for line in (note, *faults.values()) if line),
    )


def checkpoint_levels(network: nn.Module) -> None:
    """Compute a network's maps again in the backward pass: level by level, or all at once."""
    levels = [part for part in network.modules() if isinstance(part, Stages)]
    for level in levels:
        level.checkpointing = True
    if not levels:
        network.forward = Recomputed(network)  # a module around it would rename its weights


def store_weights(module: nn.Module, *, channels_last: bool) -> None:
    """Store the weights of convolutions in a format; the maps that they make follow them."""
    for weight in module.parameters():
        if weight.dim() in CHANNELS_LAST:
            order = CHANNELS_LAST[weight.dim()] if channels_last else torch.contiguous_format
            weight.data = weight.data.contiguous(memory_format=order)


def _faults(
    method: Method, wanted: TrainingConfig, device: torch.device, crops: Sequence[int] | None
) -> Iterator[tuple[str, str]]:
    """Settings that do not work here, and what is said of each."""
    if wanted.compile and (fault := _compiler_fault(device)):
        yield "compile", f"training.compile does not work here and is left out: {fault}"
    if wanted.channels_last and (fault := _format_fault(method, device, crops)):
        yield "channels_last", f"training.channels_last is left out: {fault}"


def _compiler_fault(device: torch.device) -> str:
    """Why nothing can be compiled, e.g. for want of a compiler; empty where it can."""
    try:
        torch.compile(torch.square, dynamic=False)(torch.ones(3, device=device))
    except (RuntimeError, ImportError, OSError) as error:
        return first_line(error)
    return ""


def _format_fault(method: Method, device: torch.device, crops: Sequence[int] | None) -> str:
    """Store weights with their channels last, and see that the networks can compute with them."""
    store_weights(method.to(device), channels_last=True)
    if crops is None:
        return ""
    for network in method.trained_networks():
        try:
            with evaluating(network):
                network(torch.zeros(1, *crops[1:], device=device))
        except FAULTS as error:
            return f"{type(network).__name__} cannot compute with it ({first_line(error)})"
    return ""
