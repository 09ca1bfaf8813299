"""Convolutions that this CPU computes wrongly in bf16, found by trying each; they stay in fp32.

Torch 2.13 leaves parts of the weight gradient unwritten where a map is shorter than the kernel,
and then writes beyond a tensor's end for some strides.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from tracoco.methods.method import Method, evaluating
from tracoco.methods.parts.inner_optimizer import InnerOptimizer
from tracoco.networks.network import CHANNELS_LAST


class InFp32:
    """A layer's forward pass without autocast.

    It takes the place of the layer's own `forward`: a module around the layer would rename its
    weights. A deep copy of the layer has a deep copy of it.
    """

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def __call__(self, maps: Tensor, *arguments: object) -> Tensor:
        """What the layer makes of the maps, of the type that they have."""
        with torch.autocast(maps.device.type, enabled=False):
            result: Tensor = type(self.layer).forward(self.layer, maps.float(), *arguments)
        return result.to(maps.dtype)


def keep_in_fp32(layer: nn.Module) -> None:
    """Compute a layer in fp32 from now on, whatever autocast says."""
    layer.forward = InFp32(layer)


def stays_in_fp32(layer: nn.Module) -> bool:
    """Whether `keep_in_fp32` was called for this layer, or for the one that it is a copy of."""
    return isinstance(vars(layer).get("forward"), InFp32)


def follow_autocast(layer: nn.Module) -> None:
    """Undo `keep_in_fp32`."""
    del layer.forward


BATCHES = (1, 2, 4)
"""Numbers of crops that a layer is tried with, besides those of the run's batch."""
TOLERANCE = 0.02
"""Largest error as a fraction of the norm. Rounding to bf16 gives 0.003."""
Shape = tuple[int, ...]
Hook = Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]


@dataclass(frozen=True, slots=True)
class Use:
    """The spatial shapes of what a convolution was given and of what it made."""

    given: Shape
    made: Shape


@dataclass(frozen=True, slots=True)
class Trials:
    """What came of trying the trained convolutions of a method."""

    count: int
    wrong: list[_ConvNd]
    untried: list[_ConvNd]
    """No pass of a trained network reaches them; they are e.g. a discriminator's."""

    @property
    def in_fp32(self) -> list[_ConvNd]:
        """Those that must be computed in fp32."""
        return [*self.wrong, *self.untried]

    @property
    def note(self) -> str:
        """What is to be said of a run that goes by them."""
        parts = [
            f"{len(layers)} of {self.count} convolutions stay in fp32, since {reason}"
            for layers, reason in (
                (self.wrong, "torch computes their gradients wrongly for maps this small"),
                (self.untried, "they see no whole crop and could not be tried"),
            )
            if layers
        ]
        return "; ".join(["precision: bf16", *parts])


def trained_convolutions(module: nn.Module) -> list[_ConvNd]:
    """Those with a gradient, which is all that has been wrong so far; not those of a teacher."""
    inner = [part for part in module.modules() if isinstance(part, InnerOptimizer)]
    inner_parts = {part for each in inner for part in each.modules()}  # they have one at times
    parts = [part for part in module.modules() if isinstance(part, _ConvNd)]
    return [part for part in parts if part.weight.requires_grad or part in inner_parts]


def try_layers(method: Method, crops: Sequence[int]) -> Trials:
    """Try each trained convolution of a method in bf16 on the shapes that it will see.

    Args:
        method: on the CPU.
        crops: shape [B, C, ...] of a batch.
    """
    uses, batches = _uses(method, (1, *crops[1:])), sorted({*BATCHES, crops[0]})
    verdicts: dict[tuple[object, ...], bool] = {}

    def fits(layer: _ConvNd, use: Use) -> bool:
        key = (type(layer), layer.extra_repr(), layer.weight.stride(), use)
        if key not in verdicts:
            shapes = [(batch, layer.in_channels, *use.given) for batch in batches]
            verdicts[key] = _is_safe(layer, use) and all(is_right(layer, each) for each in shapes)
        return verdicts[key]

    layers = trained_convolutions(method)
    wrong = [each for each in layers if not all(fits(each, use) for use in uses.get(each, ()))]
    return Trials(len(layers), wrong, [each for each in layers if each not in uses])


def is_right(layer: nn.Module, shape: Shape) -> bool:
    """Whether bf16 and fp32 give the same result and the same gradients for maps of this shape."""
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(shape, generator=generator)
    weight = layer.get_parameter("weight")
    if (order := CHANNELS_LAST.get(maps.dim())) and weight.is_contiguous(memory_format=order):
        maps = maps.contiguous(memory_format=order)
    maps.requires_grad_()
    with torch.autocast("cpu", enabled=False):
        result = layer(maps)
    direction = torch.randn(result.shape, generator=generator)
    expected = [result, *_gradients(layer, maps, result, direction)]
    sizes = [tensor.numel() for tensor in (maps, weight, result)]
    try:
        _fill_free_memory(sizes)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = layer(maps)
        _fill_free_memory(sizes)
        found = [result, *_gradients(layer, maps, result, direction)]
    except RuntimeError:
        return False
    return all(map(_is_close, found, expected))


def _gradients(
    layer: nn.Module, maps: Tensor, result: Tensor, direction: Tensor
) -> tuple[Tensor, ...]:
    trained = [weight for weight in layer.parameters() if weight.requires_grad]
    return torch.autograd.grad(result, [maps, *trained], direction.to(result.dtype))


def _is_close(found: Tensor, expected: Tensor) -> bool:
    error = torch.linalg.vector_norm(found.detach().float() - expected)
    return bool(error <= TOLERANCE * torch.linalg.vector_norm(expected))  # NaN is not


def _fill_free_memory(sizes: Iterable[int]) -> None:
    """Leave NaN in the memory that tensors of these sizes get next, if they do not write to it."""
    types = (torch.float32, torch.bfloat16)
    filled = [torch.full((n,), torch.nan, dtype=each) for n in sizes for each in types]
    del filled


def _is_safe(layer: _ConvNd, use: Use) -> bool:
    """Whether no axis is shorter than the kernel; otherwise even a trial may break the process."""
    spans = [
        (length - 1) * step + 1
        for length, step in zip(layer.kernel_size, layer.dilation, strict=True)
    ]
    axes = zip(spans, use.given, use.made, strict=True)
    return all(span <= min(given, made) or span == 1 for span, given, made in axes)


def _uses(method: Method, crops: Shape) -> dict[nn.Module, set[Use]]:
    """What each convolution of the trained networks sees of crops of this shape."""
    uses: dict[nn.Module, set[Use]] = {}

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        given, made = tuple(inputs[0].shape[2:]), tuple(result.shape[2:])
        uses.setdefault(layer, set()).add(Use(given, made))

    for network in method.trained_networks():
        with _hooked(trained_convolutions(network), note), evaluating(network):
            network(torch.zeros(crops))
    return uses


@contextmanager
def _hooked(layers: Iterable[nn.Module], hook: Hook) -> Iterator[None]:
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(layer.register_forward_hook(hook))
        yield
