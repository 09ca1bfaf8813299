"""A GPU that computes nothing: tensors on `cuda:0` that have a shape, a type and a device.

Torch's FakeTensorMode follows every operation on them and keeps their device, without a GPU and
without CUDA in torch. What is on the CPU stays real, draws of random numbers included.

The harness answers for what no fake tensor can know, and for nothing else:

- a value that is asked for (`float`, `item`) is 1, and a copy to the CPU holds ones and zeros;
- where a shape depends on values, a mask lets all through, as in the count of a step's memory;
- the backward pass follows the graph in Python, since torch's engine wants a real GPU.

Devices are checked here by the rules of a real GPU, because fake tensors let some mismatches pass.
What cannot be seen this way: values, speed, memory, and whether a kernel exists on a GPU.
"""

import ctypes
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._library.custom_ops import OPDEFS
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_leaves, tree_map_only

from tracoco.networks.dry_run import Module, without_values
from tracoco.training.step_cost import STAND_INS

GPU = torch.device("cuda:0")
aten = torch.ops.aten
CUDA_TYPE, META_TYPE, DEVICE_TYPES = 1, 14, 20
"""Numbers of torch's device types; they are part of its file format and do not change."""
COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default}
"""Operations that take indices from the CPU."""
UPDATES = {
    aten._fused_sgd_.default,
    aten._fused_sgd_.tensor_lr,
    aten._amp_foreach_non_finite_check_and_unscale_.default,
}
"""Operations that change tensors in place and return nothing; torch cannot follow them."""
VALUES = {
    aten._local_scalar_dense.default: None,  # one, of the tensor's type
    aten.allclose.default: True,
    aten.equal.default: True,
    aten.is_nonzero.default: True,
}
"""Operations that ask for a value, and what they are told."""


class DeviceMismatchError(RuntimeError):
    """Tensors of two devices met in an operation that a real GPU would refuse."""


class FakeGpu(FakeTensorMode):
    """Within it, tensors on `cuda:0` are fake, and those on the CPU are real."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry out one operation: really on the CPU, by shapes on the GPU."""
        kwargs = kwargs or {}
        given = tree_leaves((args, kwargs))
        if not any(map(_is_on_gpu, given)):
            return func(*args, **kwargs)
        check_devices(func, args, given)
        if func.namespace == "tracoco":  # our own operations: what they do, not just their shapes
            with self:
                return OPDEFS[func.name()]._init_fn(*args, **kwargs)
        if func.overloadpacket is aten.to:  # within our own operations it arrives as it was called
            with self:
                return func.decompose(*args, **kwargs)
        prediction = answer_for_gpu(func, args, kwargs)
        if prediction is NotImplemented:
            return super().__torch_dispatch__(func, types, args, kwargs)
        return prediction


def answer_for_gpu(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operation gives that fake tensors cannot follow; else NotImplemented."""
    if func in UPDATES:
        return None
    if func in VALUES:
        return VALUES[func] or torch.ones((), dtype=args[0].dtype).item()
    if func in COPIES and _ends_on_cpu(func, args, kwargs):
        return _ones_and_zeros(args[0].shape, kwargs.get("dtype") or args[0].dtype)
    if _depends_on_values(func, args):
        return STAND_INS[func](*args)
    return NotImplemented


def check_devices(func: Any, args: Sequence[Any], given: Sequence[Any]) -> None:
    """Refuse what a real GPU refuses: tensors of both devices, except where torch allows them."""
    tensors = [each for each in given if isinstance(each, Tensor)]
    if any(isinstance(each, torch.Generator) and each.device.type == "cpu" for each in given):
        raise DeviceMismatchError(f"{func}: a generator of the CPU draws on the GPU")
    if func in COPIES:
        return
    if func in INDEXED:  # indices may be on the CPU, but not on the GPU for a tensor on the CPU
        indices = {id(each) for each in tree_leaves(args[1])}
        if isinstance(args[0], FakeTensor):
            tensors = [each for each in tensors if id(each) not in indices]
    # One number on the CPU goes along with any tensor on the GPU.
    devices = {each.device for each in tensors if each.dim() or each.device.type != "cpu"}
    if len(devices) > 1:
        raise DeviceMismatchError(f"{func}: tensors are on {', '.join(map(str, devices))}")


def _ones_and_zeros(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    return (torch.arange(1, shape.numel() + 1) % 2).reshape(shape).to(dtype)


def _is_on_gpu(each: Any) -> bool:
    return isinstance(each, FakeTensor) or (isinstance(each, torch.device) and each.type == "cuda")


def _ends_on_cpu(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    if func is aten.copy_.default:
        return not isinstance(args[0], FakeTensor)
    device = kwargs.get("device")
    return device is not None and device.type == "cpu"


def _depends_on_values(func: Any, args: Sequence[Any]) -> bool:
    """Whether the shape of the result does."""
    if func is aten.index.Tensor:
        return any(each is not None and each.dtype == torch.bool for each in args[1])
    return func in STAND_INS


def on_gpu(module: Module) -> Module:
    """A copy with its weights on the fake GPU; its own optimizers own those of the copy.

    `Module.to` would do for a real GPU, where it keeps the parameters that an optimizer owns.
    """
    return without_values(module, lambda tensor: tensor.to(GPU))


@contextmanager
def fake_gpu() -> Iterator[None]:
    """Have a fake GPU for a while."""
    with ExitStack() as stack:
        stack.enter_context(_device_guard())
        for target, name, stand_in in _patches():
            stack.enter_context(patch.object(target, name, stand_in))
        stack.enter_context(FakeGpu())
        yield


def _patches() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What torch asks a real GPU for."""
    yield torch.cuda, "synchronize", lambda *_: None
    yield torch.cuda, "get_device_name", lambda *_: "a fake GPU"
    yield torch.cuda, "get_device_properties", lambda *_: SimpleNamespace(total_memory=2**34)
    yield torch.cuda, "is_bf16_supported", lambda *_, **__: True
    yield torch.cuda.amp.common, "amp_definitely_not_available", lambda: False
    yield Tensor, "pin_memory", lambda tensor: tensor
    yield nn.Module, "to", _moved_once
    yield torch, "save", _save_from_cpu
    yield torch, "load", _load_by_cpu
    yield from _backward_passes()


def _backward_passes() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Torch's engine, for what is on the fake GPU."""
    tasks = count()
    task = [next(tasks)]
    backward: Any = Tensor.backward
    grad: Any = torch.autograd.grad

    def fake_backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
        if not isinstance(loss, FakeTensor):
            backward(loss, *args, **kwargs)
            return
        task[0] = next(tasks)
        for weight, gradient in leaf_gradients(loss):
            weight.grad = gradient if weight.grad is None else weight.grad + gradient

    def fake_grad(loss: Tensor, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(loss, FakeTensor):
            return grad(loss, inputs, *args, **kwargs)
        task[0] = next(tasks)
        found = {id(leaf): gradient for leaf, gradient in leaf_gradients(loss)}
        return tuple(found[id(each)] for each in tree_leaves(inputs))

    yield Tensor, "backward", fake_backward
    yield torch.autograd, "grad", fake_grad
    # Checkpointing asks for it, to compute each level again once for each backward pass.
    yield torch._C, "_current_graph_task_id", lambda: task[0]


_module_to, _save, _load = nn.Module.to, torch.save, torch.load


def _save_from_cpu(content: Any, *args: Any) -> None:
    real = tree_map_only(FakeTensor, Tensor.cpu, content)
    with unset_fake_temporarily():  # else torch leaves the values out of the file
        _save(real, *args)


def _load_by_cpu(file: Any, map_location: Any, **kwargs: Any) -> Any:
    with unset_fake_temporarily():
        content = _load(file, map_location="cpu", **kwargs)
    return tree_map_only(Tensor, lambda tensor: tensor.to(map_location), content)


def _moved_once(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """`Module.to`; torch cannot move fake weights to where they are already."""
    tensors = [*module.parameters(), *module.buffers()]
    if args and args[0] == GPU and tensors and all(each.device == GPU for each in tensors):
        return module
    return _module_to(module, *args, **kwargs)


def leaf_gradients(loss: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The leaves of a graph with the gradient that reaches each; no hooks, no second derivative."""
    if loss.grad_fn is None:
        raise RuntimeError("the loss has no graph")
    edges = _incoming_edges(loss.grad_fn)
    gradients: dict[Any, dict[int, Tensor]] = {loss.grad_fn: {0: torch.ones_like(loss)}}
    ready = [loss.grad_fn]
    with torch.no_grad():
        while ready:
            node: Any = ready.pop()
            arrived = _expected(node, gradients.pop(node, {}))
            if hasattr(node, "variable"):
                if arrived[0] is not None:
                    yield node.variable, arrived[0]
                continue
            results = node(*arrived) if any(each is not None for each in arrived) else None
            results = results if isinstance(results, tuple) else (results,)
            for index, (following, slot) in enumerate(node.next_functions):
                if following is None:
                    continue
                result = results[index] if index < len(results) else None
                if result is not None:
                    slots = gradients.setdefault(following, {})
                    slots[slot] = slots[slot] + result if slot in slots else result
                edges[following] -= 1
                if not edges[following]:
                    ready.append(following)


def _incoming_edges(root: Any) -> Counter[Any]:
    edges: Counter[Any] = Counter()
    waiting = [root]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if not edges[following]:
                    waiting.append(following)
                edges[following] += 1
    return edges


def _expected(node: Any, gradients: dict[int, Tensor]) -> list[Tensor | None]:
    """What a node takes, fitted in shape and type as torch's engine does; never in device."""
    arrived: list[Tensor | None] = []
    for slot, like in enumerate(node._input_metadata):
        gradient = gradients.get(slot)
        if gradient is not None and gradient.device != like.device:
            raise DeviceMismatchError(f"{node.name()}: {gradient.device} for {like.device}")
        if gradient is not None:
            gradient = gradient.sum_to_size(like.shape).to(like.dtype)
        arrived.append(gradient)
    return arrived


@contextmanager
def _device_guard() -> Iterator[None]:
    """Give torch a guard for CUDA devices, which does nothing; a build without CUDA has none.

    Autograd asks for one and ends the process where there is none. Torch's meta device has a guard
    that does nothing, so that one is entered for CUDA too while the fake GPU is there.
    """
    guards = _registered_guards()
    if guards is None or guards[CUDA_TYPE]:  # a build with CUDA has its own
        yield
        return
    guards[CUDA_TYPE] = guards[META_TYPE]
    try:
        yield
    finally:
        guards[CUDA_TYPE] = None


def _registered_guards() -> Any:
    """Torch's table of guards, one place a device type; None where it cannot be reached."""
    ending = "dylib" if sys.platform == "darwin" else "so"
    path = Path(torch.__file__).parent / "lib" / f"libc10.{ending}"
    try:
        library = ctypes.CDLL(str(path))
        table = ctypes.c_void_p * DEVICE_TYPES
        return table.in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    except (OSError, ValueError):
        return None


GPU_CAN_BE_FAKED = _registered_guards() is not None
