"""Networks rearranged for prediction: the same result, but for rounding, in less time.

BatchNorm is folded into the convolution before it, ReLUs are computed inside convolutions, and maps
of the light UNet have their channels last. A layer is folded only where it is certain that one
layer feeds the next and nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from itertools import pairwise
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tracoco.methods.method import Method, evaluating
from tracoco.networks.light_unet import SLOPE, Double, Pointwise, Residual
from tracoco.networks.network import CHANNELS_LAST
from tracoco.networks.statistics import SplitBatchNorm2d, SplitBatchNorm3d

Place = tuple[nn.Module, str]
"""The module that holds a layer, and the layer's name there."""

IDLE = (nn.Identity, nn.Dropout, nn.Dropout2d, nn.Dropout3d)
"""Layers that do nothing at test time."""


def layer_at(place: Place) -> nn.Module:
    """The layer that is there now."""
    layer: nn.Module = getattr(*place)
    return layer


def neighbours(network: nn.Module) -> Iterator[tuple[Place, Place]]:
    """Places of two layers that follow one another at test time.

    Both lie in one `Sequential`, are used nowhere else, and nobody watches or changes what goes
    in or comes out.
    """
    uses = Counter(part for _, part in network.named_modules(remove_duplicate=False))
    found = set()
    for chain in network.modules():
        if not _is_chain(chain):
            continue
        busy = [place for place in _layers(chain) if not isinstance(layer_at(place), IDLE)]
        for pair in pairwise(busy):
            layers = [layer_at(place) for place in pair]
            shared = any(uses[layer] > 1 or is_hooked(layer) for layer in layers)
            if not shared and layers[0] not in found:  # chains lie in chains
                found.add(layers[0])
                yield pair


def _is_chain(module: nn.Module) -> bool:
    """Whether a module calls its layers one after the other and does nothing else."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _layers(chain: nn.Module) -> Iterator[Place]:
    """The layers of a chain, and of the chains in it, in the order of their calls."""
    for name, layer in vars(chain)["_modules"].items():  # also one that comes a second time
        if _is_chain(layer) and not is_hooked(layer):
            yield from _layers(layer)
        else:
            yield chain, name


def is_hooked(layer: nn.Module) -> bool:
    """Whether others watch or change what goes in or comes out, as weight normalisation does."""
    hooks = vars(layer)
    return bool(hooks["_forward_hooks"] or hooks["_forward_pre_hooks"])


class ConvolutionReLU(nn.Module):
    """oneDNN's convolution with the ReLU inside: a map that is written once, not twice."""

    def __init__(self, convolution: _ConvNd, slope: float = 0.0) -> None:
        """`slope` is that of values below zero."""
        super().__init__()
        self.convolution = convolution
        self.activation = ("leaky_relu", [slope]) if slope else ("relu", [])

    def forward(self, maps: Tensor) -> Tensor:
        """The same as the convolution, then the ReLU."""
        own = self.convolution
        place = (own.padding, own.stride, own.dilation, own.groups)
        fused: Tensor = torch.ops.mkldnn._convolution_pointwise(  # noqa: SLF001 - has no other name
            maps, own.weight, own.bias, *place, *self.activation, ""
        )
        return fused


class ResidualConvolution(nn.Module):
    """oneDNN's convolution whose result is added to its input while it is written.

    Small maps are faster this way on one core, too: torch's own convolution would leave oneDNN out.
    """

    def __init__(self, convolution: _ConvNd) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, maps: Tensor) -> Tensor:
        """Same shape in and out."""
        own = self.convolution
        place = (own.padding, own.stride, own.dilation, own.groups)
        added: Tensor = torch.ops.mkldnn._convolution_pointwise.binary(  # noqa: SLF001 - as above
            maps, maps, own.weight, own.bias, *place, "add", 1.0, None, [], None
        )
        return added


def fuse_relus(network: nn.Module) -> None:
    """Put every ReLU right behind a convolution into it, where torch can do that here."""
    for place, relu_place in list(neighbours(network)):
        convolution, relu = layer_at(place), layer_at(relu_place)
        if type(relu) in (nn.ReLU, nn.LeakyReLU) and can_fuse(convolution):
            slope = relu.negative_slope if isinstance(relu, nn.LeakyReLU) else 0.0
            setattr(*place, ConvolutionReLU(cast("_ConvNd", convolution), slope))
            setattr(*relu_place, nn.Identity())


def can_fuse(layer: nn.Module) -> bool:
    """Whether torch has an operation here that does more than this convolution."""
    return (
        hasattr(torch.ops.mkldnn, "_convolution_pointwise")  # not in every build of torch
        and isinstance(layer, nn.Conv2d | nn.Conv3d)
        and type(layer) in (nn.Conv2d, nn.Conv3d)
        and layer.weight.is_cpu
        and layer.weight.dtype == torch.float32
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


class LastPointwise(nn.Module):
    """A 1x1 convolution as one matrix product over all voxels."""

    def __init__(self, pointwise: Pointwise) -> None:
        super().__init__()
        self.weight, self.bias = pointwise.weight, pointwise.bias

    def forward(self, maps: Tensor) -> Tensor:
        """Mix the channels of each voxel: [B, C, ...] to [B, C', ...]."""
        return F.linear(maps.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)


class LastDouble(nn.Module):
    """Torch's own interpolation, which is the faster one in this layout."""

    def __init__(self, double: Double) -> None:
        super().__init__()
        self.axes, self.mode = double.axes, double.mode

    def forward(self, maps: Tensor) -> Tensor:
        """The values of `Double`."""
        axes = range(2, maps.dim())
        factors = [2.0 if axis in self.axes else 1.0 for axis in axes]
        linear = {3: "linear", 4: "bilinear", 5: "trilinear"}[maps.dim()]
        mode = linear if self.mode == "linear" else self.mode
        return F.interpolate(maps, scale_factor=factors, mode=mode)


class LastResidual(nn.Module):
    """A residual unit that writes its map once."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.added = ResidualConvolution(cast("_ConvNd", residual.body[0]))

    def forward(self, maps: Tensor) -> Tensor:
        """The values of `Residual`, whose normalisation is inside of its convolution."""
        return F.leaky_relu_(self.added(maps), SLOPE)


STAND_INS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    Pointwise: LastPointwise,
    Double: LastDouble,
    Residual: LastResidual,
}


def use_last_channels(network: nn.Module) -> None:
    """Replace layers of a network on a CPU that are made for channels that lie first.

    All of its normalisation must be inside of convolutions.
    """
    if not all(weight.is_cpu for weight in network.parameters()):
        return
    for holder in list(network.modules()):
        for name, part in holder.named_children():
            stand_in = STAND_INS.get(type(part))
            fits = not isinstance(part, Residual) or can_fuse(part.body[0])
            if stand_in and fits and not is_hooked(part):
                setattr(holder, name, stand_in(part))


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
    fast = copied(network)
    pairs = fold_norms(fast)
    if pairs and not any(isinstance(part, NORMS) for part in fast.modules()):
        _put_channels_last(fast)
        use_last_channels(fast)
        fuse_relus(fast)
    return fast if pairs else network


def portable_network(network: nn.Module) -> nn.Module:
    """A network that says the same at test time, of layers that other programs have as well.

    Batch normalisation is inside of convolutions where it can be, and layers that are made for
    torch on a CPU are plain ones, which take batches of any size.
    """
    portable = copied(network)
    fold_norms(portable)
    for holder in list(portable.modules()):
        for name, part in holder.named_children():
            if isinstance(part, Pointwise):
                setattr(holder, name, LastPointwise(part))
            elif isinstance(part, Double):
                setattr(holder, name, LastDouble(part))
    return portable


def copied(network: nn.Module) -> nn.Module:
    """A copy for test time that shares its weights with the network."""
    # What stands in the memo is taken for copied already.
    shared = {id(each): each for each in (*network.parameters(), *network.buffers())}
    return deepcopy(network, shared).eval()


def fold_norms(network: nn.Module) -> int:
    """Put each batch normalisation right behind a convolution into it; how many there were."""
    pairs = [
        (place, norm_place)
        for place, norm_place in neighbours(network)
        if _is_plain_convolution(layer_at(place)) and _is_settled_norm(layer_at(norm_place))
    ]
    for place, norm_place in pairs:
        convolution = cast("_ConvNd", layer_at(place))  # a `Pointwise` has weights like one
        norm = cast("_BatchNorm", layer_at(norm_place))
        folded = fuse_conv_bn_eval(convolution, norm, isinstance(convolution, TRANSPOSED))
        setattr(*place, folded)
        setattr(*norm_place, nn.Identity())
    return len(pairs)


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
