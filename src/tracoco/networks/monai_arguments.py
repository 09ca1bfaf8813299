"""What a network of MONAI is built with: its arguments, filled in by their names."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracoco.errors import UserError, did_you_mean
from tracoco.networks.level_plan import plan_levels


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
