"""Networks rearranged for evaluation: the same answers, but for rounding, in less time."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from itertools import pairwise
from typing import TypeVar, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tracoco.methods.method import Method, evaluating
from tracoco.networks.layers import CHANNELS_LAST

AnyModule = TypeVar("AnyModule", bound=nn.Module)
AnyMethod = TypeVar("AnyMethod", bound=Method)
Place = tuple[nn.Module, str]
"""The module that holds a layer, and the layer's name there."""

CONVOLUTIONS = (nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose2d, nn.ConvTranspose3d)
BATCH_NORMS = (nn.BatchNorm2d, nn.BatchNorm3d)
IDLE = (nn.Identity, nn.Dropout, nn.Dropout2d, nn.Dropout3d)
"""Layers that do nothing at test time."""
NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm)


@contextmanager
def ready_to_predict(method: AnyMethod) -> Iterator[AnyMethod]:
    """The method with its networks rearranged, without gradient and as at test time.

    The given one stays as it is, and its weights may move again afterwards.
    """
    with evaluating(method):
        networks = {method.inference_network(), *method.trained_networks()}
        yield _with(method, {network: fast_network(network) for network in networks})


def fast_network(network: nn.Module) -> nn.Module:
    """A network that says the same at test time; the given one stays as it is.

    Batch normalisation is a scale and a shift by then, and goes into the convolution before it.
    This is done only where it is certain which one that is: the two follow one another in a
    `Sequential`, are used nowhere else, and are torch's own. A network without such a pair is
    given back; otherwise weights that do not change are shared, and no others are held twice.
    """
    # What stands in the memo is taken for copied already.
    shared = {id(each): each for each in (*network.parameters(), *network.buffers())}
    fast = deepcopy(network, shared).eval()
    pairs = list(_foldable_pairs(fast))
    for place, norm_place in pairs:
        convolution, norm = cast("_ConvNd", _at(place)), cast("_BatchNorm", _at(norm_place))
        folded = fuse_conv_bn_eval(convolution, norm, isinstance(convolution, TRANSPOSED))
        setattr(*place, folded)
        setattr(*norm_place, nn.Identity())
    if pairs and not any(isinstance(part, NORMS) for part in fast.modules()):
        _put_channels_last(fast)
    return fast if pairs else network


def _foldable_pairs(network: nn.Module) -> Iterator[tuple[Place, Place]]:
    """Places of a convolution and of the batch normalisation right behind it."""
    uses = Counter(part for _, part in network.named_modules(remove_duplicate=False))
    found = set()
    for chain in network.modules():
        if not _is_chain(chain):
            continue
        busy = [place for place in _layers(chain) if not isinstance(_at(place), IDLE)]
        for pair in pairwise(busy):
            first, second = map(_at, pair)
            once = uses[first] == uses[second] == 1 and first not in found  # chains lie in chains
            if once and _is_plain_convolution(first) and _is_settled_norm(second):
                found.add(first)
                yield pair


def _is_chain(module: nn.Module) -> bool:
    """Whether a module calls its layers one after the other and does nothing else."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _layers(chain: nn.Module) -> Iterator[Place]:
    """The layers of a chain, and of the chains in it, in the order of their calls."""
    for name, layer in vars(chain)["_modules"].items():  # also one that comes a second time
        if _is_chain(layer) and not _is_hooked(layer):
            yield from _layers(layer)
        else:
            yield chain, name


def _is_plain_convolution(layer: nn.Module) -> bool:
    # Kernels of a transposed convolution with groups are laid out otherwise than folding takes it.
    known = type(layer) in CONVOLUTIONS or (
        type(layer) in TRANSPOSED and vars(layer)["groups"] == 1
    )
    return bool(known) and not _is_hooked(layer)


def _is_settled_norm(layer: nn.Module) -> bool:
    """Whether a layer normalises by statistics that are there already."""
    return (
        type(layer) in BATCH_NORMS
        and isinstance(layer, _BatchNorm)
        and layer.running_mean is not None
        and not _is_hooked(layer)
    )


def _is_hooked(layer: nn.Module) -> bool:
    """Whether others watch or change what goes in or comes out, as weight normalisation does."""
    hooks = vars(layer)
    return bool(hooks["_forward_hooks"] or hooks["_forward_pre_hooks"])


def _put_channels_last(network: nn.Module) -> None:
    """Lay kernels out with their channels last, and thereby every map that they make.

    A CPU convolves in this order, and need not turn maps around and back. Where other kinds of
    normalisation remain it does not pay: they are slower on such maps, and less exact.
    """
    for part in network.modules():
        if isinstance(part, _ConvNd) and part.weight.is_cpu:
            layout = CHANNELS_LAST.get(part.weight.dim(), torch.contiguous_format)
            # `contiguous` leaves kernels of a single channel as they are, since these lie right
            # either way. But then the map that they make is laid out the usual way.
            weight = torch.empty_like(part.weight, memory_format=layout).copy_(part.weight)
            part.weight = nn.Parameter(weight, requires_grad=False)


def _at(place: Place) -> nn.Module:
    layer: nn.Module = getattr(*place)
    return layer


def _with(module: AnyModule, replaced: dict[nn.Module, nn.Module]) -> AnyModule:
    """The module with others in the place of some of its parts, and all else shared."""
    own: dict[str, nn.Module | None] = vars(module)["_modules"]
    parts = {
        name: replaced[part] if part in replaced else _with(part, replaced)
        for name, part in own.items()
        if part is not None
    }
    if all(part is own[name] for name, part in parts.items()):
        return module
    changed = copy(module)
    vars(changed)["_modules"] = own | parts
    return changed
