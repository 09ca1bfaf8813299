"""Networks of MONAI, built by name and tried on the run's crop before anything is trained."""

import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from tracoco.errors import UserError, did_you_mean, first_line
from tracoco.networks import PREFIX
from tracoco.networks.dry_run import without_values

SMALLEST_EDGE = 4
"""An axis is not halved to fewer voxels than this."""
MOST_HALVINGS = 5
WIDEST = 320

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """One entry a level, fine to coarse."""

    kernels: tuple[Axes, ...]
    strides: tuple[Axes, ...]
    """From the level above to this one; the first is 1 on every axis."""
    widths: tuple[int, ...]


def plan_levels(crop: Sequence[int], filters: int) -> LevelPlan:
    """Halve each axis for as long as it stays long enough and comes out even.

    A short axis stops before the others: its stride is 1 from there on. Whatever the crop, each
    level has a whole number of voxels, so nothing is cut off on the way down and up again.
    """
    sizes: Axes = tuple(crop)
    kernels, strides = [_kernel(sizes)], [(1,) * len(sizes)]
    while len(strides) <= MOST_HALVINGS and max(_stride(sizes)) > 1:
        strides.append(_stride(sizes))
        sizes = tuple(size // step for size, step in zip(sizes, strides[-1], strict=True))
        kernels.append(_kernel(sizes))
    widths = tuple(min(filters * 2**level, WIDEST) for level in range(len(strides)))
    return LevelPlan(tuple(kernels), tuple(strides), widths)


def _stride(sizes: Axes) -> Axes:
    return tuple(2 if n % 2 == 0 and n // 2 >= SMALLEST_EDGE else 1 for n in sizes)


def _kernel(sizes: Axes) -> Axes:
    # Along a single voxel a wider kernel would see nothing but padding.
    return tuple(1 if n == 1 else 3 for n in sizes)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run asks of its network."""

    channels: int
    classes: int
    filters: int
    crop: tuple[int, ...]


def choose_arguments(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    needs: Needs,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """What the run decides, what can be made from its crop and filters, and the user's options.

    A network whose width is no argument (HighResNet, VNet) keeps its own, whatever `filters` says.
    """
    fixed = {key: value for key, value in _of_the_run(needs).items() if key in parameters}
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for key in options:
        if key in fixed:
            raise UserError(
                f"network.options.{key}: the run decides it ({fixed[key]}); leave it out"
            )
        if key not in parameters and not open_ended:
            free = parameters.keys() - fixed.keys()
            raise UserError(f"network.options.{key}: '{name}' has none; {did_you_mean(key, free)}")
    arguments = _made_from_the_crop(parameters, needs) | fixed | dict(options)
    for key, each in parameters.items():
        required = each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        if required and key not in arguments:
            raise UserError(f"'{name}' needs '{key}'; give it as network.options.{key}")
    return arguments


def _of_the_run(needs: Needs) -> dict[str, Any]:
    return {
        **dict.fromkeys(("spatial_dims", "dimensions"), len(needs.crop)),
        **dict.fromkeys(("in_channels", "n_channels"), needs.channels),
        **dict.fromkeys(("out_channels", "num_classes"), needs.classes),
        **dict.fromkeys(("img_size", "image_size", "input_image_size"), needs.crop),
    }


def _made_from_the_crop(
    parameters: Mapping[str, inspect.Parameter], needs: Needs
) -> dict[str, Any]:
    """Widths wherever they can be set; strides and kernels where a network has no default."""
    plan = plan_levels(needs.crop, needs.filters)
    # DynUNet, which asks for these kernels, also wants a stride into the first level.
    first = 0 if "upsample_kernel_size" in parameters else 1
    shape: dict[str, Any] = {
        "channels": plan.widths,
        "strides": plan.strides[first:],
        "kernel_size": plan.kernels,
        "upsample_kernel_size": plan.strides[1:],
    }
    widths: dict[str, Any] = {
        "filters": plan.widths,
        "init_filters": needs.filters,
        "feature_size": needs.filters,
        "features": tuple(needs.filters * factor for factor in (1, 1, 2, 4, 8, 1)),
    }
    without_default = {key for key, each in parameters.items() if each.default is each.empty}
    made = {key: value for key, value in shape.items() if key in without_default}
    made |= {key: value for key, value in widths.items() if key in parameters}
    # Some classes download weights unless told not to.
    return made | ({"pretrained": False} if "pretrained" in parameters else {})


USUAL = ("UNet", "DynUNet", "SegResNet", "AttentionUnet", "UNETR", "SwinUNETR")
"""Networks for segmentation; MONAI has many more, and not all of them are."""
FAULTS: tuple[type[Exception], ...] = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
"""What MONAI and torch raise where arguments or sizes do not fit; there is no one class for it."""


class OnlyOutput(nn.Module):
    """The tensor of a network that returns it in a list."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        outputs: list[Tensor] = self.network(crops)
        return outputs[0]


def monai_class(name: str) -> type[nn.Module]:
    """The class that `monai:NAME` stands for."""
    try:
        nets = import_module("monai.networks.nets")
    except ImportError as error:
        raise UserError(f"network '{name}' needs MONAI: pip install 'tracoco[monai]'") from error
    known: dict[str, type[nn.Module]] = {
        key: each for key, each in vars(nets).items() if _is_network(each)
    }
    wanted = name.removeprefix(PREFIX)
    if wanted not in known:
        proper = [key for key, each in known.items() if key == each.__name__]
        near = difflib.get_close_matches(wanted, proper, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"among others it has {', '.join(USUAL)}"
        raise UserError(f"MONAI has no network '{wanted}'; {hint}")
    return known[wanted]


def build_monai(name: str, needs: Needs, options: Mapping[str, Any]) -> nn.Module:
    """A freshly initialised network that gives logits [B, classes, ...] for crops of this size."""
    network_class = monai_class(name)
    arguments = choose_arguments(name, inspect.signature(network_class).parameters, needs, options)
    listed = ", ".join(f"{key}={value}" for key, value in arguments.items())
    change = "change network.filters, network.options or data.crop"
    with _explained(name, f"cannot be built for crop {needs.crop} with {listed}", change):
        network = network_class(**arguments)
    convolutions = [part for part in network.modules() if isinstance(part, _ConvNd)]
    if convolutions and all(part.weight.dim() - 2 != len(needs.crop) for part in convolutions):
        raise UserError(
            f"network '{name}' is not for {len(needs.crop)}D; "
            f"use one that is, e.g. '{PREFIX}DynUNet'"
        )
    return _tried(name, network, needs)


def _tried(name: str, network: nn.Module, needs: Needs) -> nn.Module:
    shape = (1, needs.channels, *needs.crop)
    with _explained(
        name,
        f"cannot take crop {needs.crop}",
        "set data.crop to longer axes or to lengths divisible by 32, or change network.options",
    ):
        output, used = _outcome(network, shape)
    for weight, learns in zip(network.parameters(), used, strict=True):
        weight.requires_grad_(learns)
    if isinstance(output, list | tuple) and len(output) == 1:
        network, output = OnlyOutput(network), output[0]
    expected = (1, needs.classes, *needs.crop)
    if not isinstance(output, Tensor) or tuple(output.shape) != expected:
        got = tuple(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise UserError(
            f"network '{name}' gives {got} for crop {needs.crop} where one tensor of logits "
            f"{expected} is needed; take a network for segmentation, or change network.options"
        )
    return network


def _outcome(network: nn.Module, shape: tuple[int, ...]) -> tuple[Any, list[bool]]:
    """What a network gives for crops of this shape, and which of its weights had a part in it."""
    try:
        return _pass(without_values(network), torch.empty(shape, device="meta"))
    except FAULTS:
        # Not every operation knows the meta device: what fails there counts if it fails in earnest.
        with torch.random.fork_rng(devices=[]):
            return _pass(deepcopy(network), torch.zeros(shape))  # the original's statistics stay


def _pass(network: nn.Module, crops: Tensor) -> tuple[Any, list[bool]]:
    """A pass forth and back.

    Some networks have layers for options that are off. Several processes would wait for the
    gradients of these, so they are to need none.
    """
    output = network(crops)
    (prediction,) = output if isinstance(output, list | tuple) and len(output) == 1 else (output,)
    if isinstance(prediction, Tensor) and prediction.requires_grad:
        prediction.sum().backward()
    return output, [weight.grad is not None for weight in network.parameters()]


@contextmanager
def _explained(name: str, what: str, change: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"network '{name}' needs another package, install it: {first_line(error)}"
        ) from error
    except FAULTS as error:
        raise UserError(f"network '{name}' {what}: {first_line(error)}; {change}") from error


def _is_network(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)
