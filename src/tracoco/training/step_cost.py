"""How much time and memory a training step takes, measured or counted on a batch of noise."""

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tracoco.config import Config
from tracoco.data.batch import Batch, Crops
from tracoco.geometry import Index, Size, Strides, total_stride
from tracoco.methods import method_row
from tracoco.methods.method import Method
from tracoco.networks.dry_run import Module, without_values
from tracoco.project.plan import Plan
from tracoco.runs.build import choose_device, resolved, run_crop, run_method
from tracoco.training.acceleration import PRECISIONS, accelerate, checkpoint_levels


def noise_batch(config: Config, plan: Plan, size: Size) -> Batch:
    """Crops of this size in pairs that overlap by three quarters; only what the method uses."""
    row = method_row(config.method.name)
    labelled, unlabelled = config.data.batch
    count = labelled + (unlabelled if row.trained_by_unlabelled else 0)
    random = torch.Generator().manual_seed(0)

    def crops(place: Index, length: int) -> Crops:
        shape = (*size[:-1], length)
        values = torch.rand(count, plan.channels, *shape, generator=random)
        return Crops(values, torch.ones(count, *shape, dtype=torch.bool), (place,) * count)

    labels = torch.randint(plan.classes, (labelled, *size), generator=random)
    first = crops((0,) * len(size), size[-1])
    second = crops(tuple(length // 4 for length in size), size[-1] if row.pairs else 0)
    pseudo = None
    if row.pseudo_labels:
        pseudo = torch.randint(plan.classes, (unlabelled, *size), generator=random)
    return Batch(first, second, labels, tuple(map(str, range(count))), pseudo)


aten = torch.ops.aten
CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)


class PeakMemory(TorchDispatchMode):
    """Within it, tensors have shapes and no values, and their bytes are counted while they live.

    A tensor counts from the operation that makes it until nothing refers to its storage: what
    autograd keeps, gradients, and whatever else is alive at the same time. A convolution is
    counted with copies of what it takes and gives, since torch's fast ones rearrange both.

    Where a shape depends on values the largest is taken: a mask lets all through.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.live_bytes = 0
        self.peak_bytes = 0
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._storages: dict[int, weakref.ref[Any]] = {}

    def without_values(self, module: Module) -> Module:
        """A copy whose weights have no values and are not counted; to be made before entering."""
        copied = without_values(module, self._fake.from_tensor)
        for tensor in (*copied.parameters(), *copied.buffers()):
            self._hold(tensor, 0)
        return copied

    def make(self, factory: Callable[..., Any], *arguments: Any) -> Any:
        """What a factory of tensors makes, without values and not counted yet."""
        with self._fake:
            return factory(*arguments)

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carry out one operation and count what it makes."""
        kwargs = kwargs or {}
        stand_in = STAND_INS.get(operation)
        given = tree_leaves((args, kwargs))
        if stand_in and any(isinstance(each, FakeTensor) for each in given):
            result = stand_in(*args)
        else:
            result = operation(*args, **kwargs)
        made = [each for each in tree_leaves(result) if isinstance(each, FakeTensor)]
        for tensor in made:
            self.count(tensor)
        if operation in CONVOLUTIONS:
            taken = [each for each in given if isinstance(each, FakeTensor)]
            copies = sum(tensor.nbytes for tensor in (*taken, *made))
            self.peak_bytes = max(self.peak_bytes, self.live_bytes + copies)
        return result

    def count(self, tensor: Tensor) -> None:
        """Count a tensor until it is gone; once, however many share its storage."""
        self._hold(tensor, tensor.untyped_storage().nbytes())

    def _hold(self, tensor: Tensor, size: int) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._storages:
            return

        def forget(_: Any) -> None:
            self.live_bytes -= size
            del self._storages[key]

        self._storages[key] = weakref.ref(storage, forget)
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)


def _all_of(mask: Tensor) -> Tensor:
    return mask.new_empty(mask.numel(), mask.dim(), dtype=torch.long)


def _indexed(values: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    result: Tensor = aten.index.Tensor(values, list(_numbers(indices)))
    return result


def _numbers(indices: Sequence[Tensor | None]) -> Iterator[Tensor | None]:
    for index in indices:
        if index is not None and index.dtype == torch.bool:
            yield from _all_of(index).unbind(1)
        else:
            yield index


def _one_value(values: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    one, none = values.new_empty(1), values.new_empty(0, dtype=torch.long)
    return one, none, none


STAND_INS: dict[Any, Callable[..., Any]] = {
    aten.nonzero.default: _all_of,
    aten.index.Tensor: _indexed,
    aten._unique2.default: _one_value,  # noqa: SLF001 - its only name
}
"""Operations whose result has as many elements as values say."""


UNCOUNTABLE = (
    *(DataDependentOutputException, DynamicOutputShapeException),
    *(UnsupportedFakeTensorException, UnsupportedOperatorException),
)
"""What torch raises where a computation goes by values, which the tensors do not have."""
LEAVES_TORCH = ("tensor subclasses", "FakeTensor")
"""In what it says of a value that is asked for by numpy or Python: that has no class of its own."""
LATE = 10**9
"""A step behind all ramps and first stages: what starts late is counted too."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes at the peak of a step of one process."""

    kept: int
    """With all maps kept for the backward pass."""
    checkpointed: int
    """With `training.checkpointing`."""


def step_memory(config: Config, plan: Plan) -> StepMemory | None:
    """Weights, averages, moments of the optimizer, and the most that a step has alive at once.

    In that: the batch, all maps that autograd keeps, gradients, what losses and a convolution need
    for the moment. Not in that: torch itself, and what its allocator holds in reserve. None where
    a method leaves torch for its loss, so that nothing can be counted.
    """
    kept = step_bytes(config, plan)
    checkpointed = step_bytes(config, plan, checkpointing=True)
    return None if kept is None or checkpointed is None else StepMemory(kept, checkpointed)


def step_bytes(config: Config, plan: Plan, *, checkpointing: bool = False) -> int | None:
    """The same with or without `training.checkpointing` alone."""
    try:
        return _peak(resolved(config, plan), plan, checkpointing=checkpointing)
    except UNCOUNTABLE:
        return None
    except RuntimeError as error:
        if not any(words in str(error) for words in LEAVES_TORCH):
            raise
        return None


def _peak(config: Config, plan: Plan, *, checkpointing: bool) -> int:
    method = run_method(config, plan)
    if checkpointing:
        for network in method.trained_networks():
            checkpoint_levels(network)
    crop = run_crop(config, plan)[-plan.dimensions :]
    memory = PeakMemory()
    shell = memory.without_values(method).train()
    with memory, torch.random.fork_rng(devices=[]):
        batch = memory.make(noise_batch, config, plan, crop)
        for tensor in _tensors(batch):
            memory.count(tensor)
        # `auto` counts as fp32, which takes more.
        _step(shell, batch, PRECISIONS.get(config.training.precision))
        peak = memory.peak_bytes
    return peak + _bytes(method) + _copies(config) * _trained_bytes(method)


def _copies(config: Config) -> int:
    """Numbers that the optimizer and the average keep for each weight that learns."""
    moments = 2 if config.optimizer.name == "adamw" else int(config.optimizer.momentum > 0)
    return moments + int(config.training.ema_decay > 0)


def _step(method: Method, batch: Batch, dtype: torch.dtype | None) -> None:
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        output = method(batch, LATE)
    torch.stack(list(output.terms.values())).sum().backward()


def _tensors(batch: Batch) -> list[torch.Tensor]:
    crops = (batch.first, batch.second)
    labels = [batch.labels] if batch.pseudo_labels is None else [batch.labels, batch.pseudo_labels]
    return [*labels, *(part for each in crops for part in (each.values, each.valid))]


def _bytes(module: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def _trained_bytes(method: Method) -> int:
    return sum(weight.nbytes for group in method.parameter_groups() for weight in group["params"])


SMALL = 32
"""Voxels of an axis that is tried: each of our networks can halve it as often as it must."""
TRIES = 3


def step_seconds(config: Config, plan: Plan, device: str = "auto") -> float:
    """Of one process on this machine, in the precision that a run would have.

    On a CPU time grows with the voxels, so a small crop tells. A GPU is not busy with a small one.
    """
    config = resolved(config, plan)  # the network of the real crop, tried on a small one
    crop, where = run_crop(config, plan)[-plan.dimensions :], choose_device(device)
    small = _small(crop, config.network.strides) if where.type == "cpu" else crop
    data = config.data.model_copy(update={"crop": small})
    batch = noise_batch(config, plan, small).to(where)
    method = run_method(config.model_copy(update={"data": data}), plan)
    dtype = accelerate(method, config.training, where, batch.first.values.shape).dtype
    method.to(where)
    seconds = []
    for _ in range(TRIES):  # the first one also pays for what torch prepares
        start = time.perf_counter()
        with (
            # A caller's generator is not for our noise.
            torch.random.fork_rng(devices=[where] if where.type == "cuda" else []),
            torch.autocast(where.type, dtype=dtype, enabled=dtype is not None),
        ):
            output = method(batch, 1)
        torch.stack(list(output.terms.values())).sum().backward()
        if where.type == "cuda":
            torch.cuda.synchronize(where)
        seconds.append(time.perf_counter() - start)
    return min(seconds) * prod(crop) / prod(small)


def _small(crop: Size, strides: Strides | None) -> Size:
    """A crop for the same network: where its strides go deep, longer than others are tried on."""
    steps = total_stride(strides) if strides else (1,) * len(crop)
    return tuple(min(n, max(SMALL, 2 * step)) for n, step in zip(crop, steps, strict=True))
