"""Networks without values, to learn from a pass what they do not say of themselves."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def without_values(module: Module, emptied: Callable[[Tensor], Tensor] | None = None) -> Module:
    """A copy whose tensors have shapes and take no time and no memory.

    They are on torch's meta device, or whatever `emptied` makes of them.
    """
    emptied = emptied or _on_meta
    # What stands in `memo` is taken for copied already, wherever the module refers to it.
    memo: dict[int, Any] = {id(buffer): emptied(buffer) for buffer in module.buffers()}
    for weight in module.parameters():
        memo[id(weight)] = nn.Parameter(emptied(weight.detach()), weight.requires_grad)
    return deepcopy(module, memo)


def _on_meta(tensor: Tensor) -> Tensor:
    return tensor.to("meta")
