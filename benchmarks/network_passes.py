"""The networks' part of a TraCoCo step, with nothing around it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from tracoco.data.batch import Batch
from tracoco.methods.method import evaluating
from tracoco.networks.statistics import frozen_statistics

KERNELS = ("conv", "mm", "addmm", "dot")
"""What arithmetic proper is called in torch: convolutions and matrix products."""


def bare_passes(networks: Sequence[nn.Module], batch: Batch) -> None:
    """The passes of our step in their groups, backward from the sum of the logits."""
    both = nn.ModuleList(networks)
    unlabelled = batch.first.values[batch.labelled_count :]
    loss = _summed(networks, batch.first.values)
    with frozen_statistics(both):
        loss = loss + _summed(networks, batch.second.values)
    with evaluating(both):
        for network in networks:
            network(unlabelled)
    with frozen_statistics(both):
        loss = loss + _summed(networks, unlabelled)
    loss.backward()


def _summed(networks: Sequence[nn.Module], crops: Tensor) -> Tensor:
    return torch.stack([network(crops).sum() for network in networks]).sum()


def count_crops(networks: Sequence[nn.Module], step: Callable[[], None]) -> tuple[int, int]:
    """How many crops a step sends through its networks, with gradient and without."""
    counts = {True: 0, False: 0}

    def count(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG001 - a hook
        counts[torch.is_grad_enabled()] += len(inputs[0])

    handles = [network.register_forward_pre_hook(count) for network in networks]
    step()
    for handle in handles:
        handle.remove()
    return counts[True], counts[False]


def kernel_share(work: Callable[[], None]) -> float:
    """Fraction of the time of some work that is spent in convolutions and matrix products."""
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        work()
    events = watched.key_averages()
    times = {event.key: event.self_cpu_time_total for event in events}
    valid = sum(time for key, time in times.items() if _is_kernel(key))
    return float(valid / sum(times.values()))


def _is_kernel(operation: str) -> bool:
    name = operation.removeprefix("aten::").removeprefix("mkldnn_")
    return any(name.startswith(kernel) or name.endswith(kernel) for kernel in KERNELS)
