"""The processes of a run, one alone or several started by `torchrun`."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tracoco.errors import UserError
from tracoco.runs.build import choose_device

_DDP_ARGUMENTS = signature(DistributedDataParallel).parameters
SYNC_BUFFERS = next(
    name for name in ("forward_sync_buffers", "broadcast_buffers") if name in _DDP_ARGUMENTS
)
"""The argument, which torch has renamed, that copies buffers at every step. It is off: each process
keeps its own statistics and banks."""


@dataclass(frozen=True, slots=True)
class Process:
    """This process among those of the run."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def wrap(self, method: nn.Module, *, idle_networks: bool = False) -> nn.Module:
        """Average the gradients of all processes, however many networks the method has.

        Buffers are not exchanged: each process keeps its own BatchNorm statistics during training,
        and its own banks, class weights and thresholds, all made of its own crops. Rank 0's are
        the ones that are saved.

        Args:
            method: with all of its networks.
            idle_networks: look at every step which networks have a gradient, which takes time;
                else all must have one.
        """
        if self.world_size == 1:
            return method
        devices = [self.device] if self.device.type == "cuda" else None
        buffers: dict[str, Any] = {SYNC_BUFFERS: False}
        return DistributedDataParallel(
            method,
            device_ids=devices,
            find_unused_parameters=idle_networks,
            **buffers,
        )

    def clock(self) -> float:
        """Seconds, once the device has done all that it was asked for."""
        if self.device.type == "cuda":  # it takes orders faster than it carries them out
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def largest(self, values: list[int]) -> list[int]:
        """The largest of each value over all processes."""
        if self.world_size == 1:
            return values
        shared = torch.tensor(values, device=self.device)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return [int(value) for value in shared]

    def mean(self, values: list[float]) -> list[float]:
        """The mean of each value over all processes."""
        if self.world_size == 1 or not values:
            return values
        shared = torch.tensor(values, device=self.device)
        dist.all_reduce(shared)
        return [float(value) for value in shared / self.world_size]

    def mean_of_some(self, values: list[float]) -> list[float]:
        """The mean of each value over the processes that have them; empty where none has.

        A process has all of them or none, as where the pseudo-labels of its crops were nowhere
        sure. All processes must call it all the same.
        """
        (length,) = self.largest([len(values)])
        *sums, having = self.mean([*(values or [0.0] * length), float(bool(values))])
        return [value / having for value in sums] if having else []

    def all_agree(self, agreed: bool) -> bool:  # noqa: FBT001 - the value itself
        """Whether it is true in every process."""
        return self.largest([int(not agreed)]) == [0]

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def joined_process(device: str) -> Iterator[Process]:
    """Join the processes that `torchrun` or `srun` started, or be alone; leave them at the end."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield Process(0, 1, choose_device(device))
        return
    local = choose_device(device)
    if local.type == "cuda":
        local = _own_gpu(local, int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(local)
    backend = "nccl" if local.type == "cuda" else "gloo"
    # Long, since the others wait while rank 0 scores the validation cases.
    dist.init_process_group(backend, timeout=timedelta(hours=2))
    process = Process(dist.get_rank(), world_size, local)
    try:
        yield process
        process.wait()  # none leaves while another still exchanges tensors
    finally:
        dist.destroy_process_group()


def _own_gpu(device: torch.device, local_rank: int) -> torch.device:
    if device.index is not None:
        raise UserError(f"--device {device} would be shared by all processes; use cuda or auto")
    if torch.cuda.device_count() == 1 and "SLURM_STEP_ID" in os.environ:
        return choose_device("cuda:0")  # SLURM lets each task see its own GPU alone
    return choose_device(f"cuda:{local_rank}")


def let_train_fast(device: torch.device) -> None:
    """Let a GPU be fast in all of this process.

    That a resumed run is bitwise the same is promised for CPUs alone.
    """
    if device.type == "cuda":
        # All crops have one size, so that the convolutions that win on the first are worth a try.
        torch.backends.cudnn.benchmark = True
        # Convolutions round to TF32 by torch's default; matrix products may as well.
        torch.set_float32_matmul_precision("high")
