"""Settings against the memory of this machine, before anything of a run is built.

What is counted is the least that a run can do with: weights and one map of the finest level for
each voxel. A run that needs a little too much is the business of `tracoco check`; here it is about
settings that no machine of this kind can run.
"""

from collections.abc import Callable
from math import prod

import torch
from torch import nn

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.geometry import Size, Strides
from tracoco.memory import as_gib, available_bytes
from tracoco.project.plan import Plan

WEIGHT_BYTES, VALUE_BYTES = 4, 2
"""Of a weight, and of a voxel of a map in half precision."""
MOST_LEVELS = 16
"""Halving a scan of 65,536 voxels so often leaves one."""


def check_levels(strides: Strides) -> None:
    """Refuse a network with more levels than any scan can be halved to."""
    if len(strides) > MOST_LEVELS:
        raise UserError(
            f"network.strides has {len(strides)} levels; {MOST_LEVELS} are more than any scan can "
            "be halved to. Give fewer, or leave it to the plan"
        )


def check_weights(config: Config, build: Callable[[], nn.Module]) -> None:
    """Refuse a network whose weights do not fit into memory; it is built without any to count."""
    with torch.device("meta"):
        count = sum(weight.numel() for weight in build().parameters())
    what = f"a network '{config.network.name}' of {config.network.width:,} filters"
    _check(count * WEIGHT_BYTES, what, "network.filters")


def check_window(config: Config, plan: Plan, crop: Size) -> None:
    """Refuse windows that a network cannot predict one of."""
    _check(_map_bytes(config, plan, crop), f"a window of {_sides(crop)} voxels", "data.crop")


def check_step(config: Config, plan: Plan, crop: Size, device: torch.device) -> None:
    """Refuse crops and batches of which a step cannot hold the maps that it needs at the least."""
    crops = sum(config.data.batch)
    what = f"a step with {crops:,} crops of {_sides(crop)} voxels"
    fix = "data.crop, data.labelled_batch or data.unlabelled_batch"
    _check(crops * _map_bytes(config, plan, crop), what, fix, device)


def _map_bytes(config: Config, plan: Plan, crop: Size) -> int:
    return prod(crop) * (config.network.width + plan.classes + plan.channels) * VALUE_BYTES


def _sides(crop: Size) -> str:
    return " x ".join(f"{side:,}" for side in crop)


def _check(needed: int, what: str, settings: str, device: torch.device | None = None) -> None:
    available = available_bytes()
    if device is not None and device.type == "cuda":
        available = torch.cuda.get_device_properties(device).total_memory
    if available is not None and needed > available:
        raise UserError(
            f"{what} needs at least {as_gib(needed)} of memory, and {as_gib(available)} are "
            f"available; make {settings} smaller"
        )
