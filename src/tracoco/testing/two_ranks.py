"""A method in two processes: after every step both must hold the same weights."""

import gc
import hashlib
import re
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from tracoco.config import parse_config
from tracoco.data.batch import Batch
from tracoco.methods.method import Method
from tracoco.processes import StopRequest
from tracoco.testing.steps import BatchOfSeed
from tracoco.testing.subject import Subject
from tracoco.training.distributed import Process
from tracoco.training.trainer import Trainer

STEPS = (0, 3, 60, 124, 125)
"""Of a run of 30 that goes on: the first, one past a short first stage, and three past all ramps.
What a step leaves without a gradient is noticed at the next."""
WORLD = 2


def check_two_ranks(subject: Subject, dimensions: int = 2, classes: int = 3) -> None:
    """Start two processes on this machine, and raise what is wrong in either."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (subject, dimensions, classes, Path(folder))
        try:
            spawn(_rank, arguments, nprocs=WORLD)
        except ProcessRaisedException as error:
            last = str(error).strip().splitlines()[-1]
            raise AssertionError(last.removeprefix("AssertionError: ")) from error
        except (AttributeError, TypeError) as error:  # what pickle cannot take along
            raise AssertionError(
                f"two processes need a class that both can import, at the top of a file: {error}"
            ) from error


def _rank(rank: int, subject: Subject, dimensions: int, classes: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(minutes=5),
    )
    process = Process(rank, WORLD, torch.device("cpu"))
    try:

        def batch_of(step: int) -> Batch:
            return subject.batch(dimensions, classes, seed=100 * step + rank)

        keep_equal(subject.name, subject.make(dimensions, classes), process, folder, batch_of)
        process.wait()
    finally:
        dist.destroy_process_group()


def keep_equal(
    name: str, method: Method, process: Process, folder: Path, batch_of: BatchOfSeed, own: str = ""
) -> None:
    """Take steps in all processes, and see after each that they hold the same.

    Args:
        name: of the method, for errors.
        method: with its first weights; those of other ranks than the first are set to zero.
        process: the processes.
        folder: for checkpoints.
        batch_of: gives the batch of this process at a step.
        own: pattern of what of the state may differ. Without it all but parameters may: each
            process has its own BatchNorm statistics and banks.
    """
    if process.rank > 0:  # other first weights: rank 0's must win
        with torch.no_grad():
            for parameter in method.parameters():
                parameter.zero_()
    training = {"steps": 200, "save_every": 200, "unlabelled_weight": "scheduled"}
    config = parse_config({"training": training, "method": {"name": name}}, "check")
    trainer = Trainer(method, config, folder, process, identity={})
    parameters = {each for each, _ in method.named_parameters()}
    for step in STEPS:
        trainer.step = step
        trainer.fit([batch_of(step)], None, StopRequest())
        found = differing_ranks(method, process)
        free = [each for each in found if re.search(own, each)] if own else []
        unequal = [each for each in found if each not in free and (own or each in parameters)]
        if unequal:
            raise AssertionError(
                f"{', '.join(unequal[:3])} differ between two processes after step {step}"
            )
    del trainer
    gc.collect()  # what is left of a wrapped network must not outlive the processes' group


def differing_ranks(method: Method, process: Process) -> list[str]:
    """Names of what of the method's state is not the same in all processes."""
    own = {name: digest(value) for name, value in method.state_dict().items()}
    found: list[dict[str, str]] = [{}] * process.world_size
    dist.all_gather_object(found, own)
    names = {name for each in found for name in each}
    return [name for name in names if len({each.get(name) for each in found}) > 1]


def digest(value: Any) -> str:
    """A short text that is the same for equal states."""
    if isinstance(value, torch.Tensor):
        return hashlib.sha256(value.numpy().tobytes()).hexdigest()
    if isinstance(value, dict | list | tuple):  # what an optimizer or a bank remembers
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return str([(str(name), digest(part)) for name, part in parts])
    return str(value)
