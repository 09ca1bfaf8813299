"""Networks rearranged for evaluation: the same answers, but for rounding, in less time."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import TypeVar, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tracoco.inference.chains import layer_at, neighbours
from tracoco.inference.fused_relu import fuse_relus
from tracoco.inference.last_channels import use_last_channels
from tracoco.methods.method import Method, evaluating
from tracoco.networks.layers import CHANNELS_LAST
from tracoco.networks.light_unet import Pointwise
from tracoco.networks.statistics import SplitBatchNorm2d, SplitBatchNorm3d

AnyModule = TypeVar("AnyModule", bound=nn.Module)
AnyMethod = TypeVar("AnyMethod", bound=Method)

CONVOLUTIONS = (nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose2d, nn.ConvTranspose3d)
BATCH_NORMS = (nn.BatchNorm2d, nn.BatchNorm3d, SplitBatchNorm2d, SplitBatchNorm3d)
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

    Batch normalisation is a scale and a shift by then, and goes into the convolution before it, as
    a ReLU behind it does. On a CPU maps then have their channels last. This is done only where it
    is certain which convolution that is: the two follow one another in a `Sequential`, are used
    nowhere else, and are torch's or ours. A network without such a pair is given back; otherwise
    weights that do not change are shared, and no others are held twice.
    """
    # What stands in the memo is taken for copied already.
    shared = {id(each): each for each in (*network.parameters(), *network.buffers())}
    fast = deepcopy(network, shared).eval()
    pairs = [
        (place, norm_place)
        for place, norm_place in neighbours(fast)
        if _is_plain_convolution(layer_at(place)) and _is_settled_norm(layer_at(norm_place))
    ]
    for place, norm_place in pairs:
        convolution = cast("_ConvNd", layer_at(place))  # a `Pointwise` has weights like one
        norm = cast("_BatchNorm", layer_at(norm_place))
        folded = fuse_conv_bn_eval(convolution, norm, isinstance(convolution, TRANSPOSED))
        setattr(*place, folded)
        setattr(*norm_place, nn.Identity())
    if pairs and not any(isinstance(part, NORMS) for part in fast.modules()):
        _put_channels_last(fast)
        use_last_channels(fast)
        fuse_relus(fast)
    return fast if pairs else network


def _is_plain_convolution(layer: nn.Module) -> bool:
    # Kernels of a transposed convolution with groups are laid out otherwise than folding takes it.
    known = type(layer) in TRANSPOSED and vars(layer)["groups"] == 1
    return known or type(layer) in (*CONVOLUTIONS, Pointwise)


def _is_settled_norm(layer: nn.Module) -> bool:
    """Whether a layer normalises by statistics that are there already."""
    return (
        type(layer) in BATCH_NORMS
        and isinstance(layer, _BatchNorm)
        and layer.running_mean is not None
    )


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
