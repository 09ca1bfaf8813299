"""How a step is computed on this device: as the settings ask, or plainly where that fails."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from tracoco.config import TrainingConfig
from tracoco.errors import first_line
from tracoco.methods.method import Method, evaluating
from tracoco.networks.from_monai import FAULTS
from tracoco.networks.layers import CHANNELS_LAST
from tracoco.networks.recomputed import Recomputed
from tracoco.networks.stages import Stages
from tracoco.training.precision import PRECISIONS, Agree, settle_precision


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What a run really uses, with a line for each setting that it had to do without."""

    precision: str = "fp32"
    compile: bool = False
    channels_last: bool = False
    checkpointing: bool = False
    fused_optimizer: bool = False
    notes: tuple[str, ...] = ()

    @property
    def dtype(self) -> torch.dtype | None:
        """What autocast computes in, if it is used."""
        return PRECISIONS.get(self.precision)


def arrange(
    method: Method,
    wanted: TrainingConfig,
    device: torch.device,
    crops: Sequence[int] | None = None,
    *,
    recorded: str | None = None,
    agree: Agree = bool,
) -> Arrangement:
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
    precision, told = settle_precision(
        method, wanted.precision, device, crops, recorded=recorded, agree=agree
    )
    if wanted.checkpointing:
        for network in method.trained_networks():
            checkpoint_levels(network)
    return Arrangement(
        precision=precision,
        compile=wanted.compile and "compile" not in faults,
        channels_last=wanted.channels_last and "channels_last" not in faults,
        checkpointing=wanted.checkpointing,
        # On a CPU torch's fused step rounds otherwise, and runs would not be what they were.
        fused_optimizer=device.type == "cuda",
        notes=tuple(note for note in (told, *faults.values()) if note),
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
