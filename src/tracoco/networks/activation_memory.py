"""Memory that a computation takes at its peak, counted on tensors without values."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tracoco.networks.dry_run import Module, without_values

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
