"""From a run's settings and plan to its method, the same for training and for prediction.

Settings are held against the memory of this machine before anything is built. What is counted is
the least that a run can do with: weights and one map of the finest level for each voxel. A run that
needs a little too much is the business of `tracoco check`; here it is about settings that no
machine of this kind can run.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tracoco.config import FILTERS, STEPS, Config, NetworkConfig
from tracoco.errors import UserError
from tracoco.geometry import Size, Strides, crop_problem, form_problem
from tracoco.memory import as_gib, available_bytes
from tracoco.methods import build_method
from tracoco.methods.method import Method, RunFacts
from tracoco.networks import build_network, check_crop, check_strided, is_strided, network_facts
from tracoco.networks.statistics import split_statistics
from tracoco.project.derive import choose_strides
from tracoco.project.plan import Plan


def resolved(config: Config, plan: Plan) -> Config:
    """The settings with all that they leave to the plan filled in."""
    config = planned(config, plan)
    labelled, unlabelled = plan.batch
    data, network = config.data, config.network
    sizes = {
        "crop": run_crop(config, plan),
        "labelled_batch": labelled if data.labelled_batch is None else data.labelled_batch,
        "unlabelled_batch": unlabelled if data.unlabelled_batch is None else data.unlabelled_batch,
    }
    depth = {"strides": run_strides(config, plan) or None}
    return config.model_copy(
        update={"data": data.model_copy(update=sizes), "network": network.model_copy(update=depth)}
    )


def planned(config: Config, plan: Plan) -> Config:
    """The settings with width, steps and precision of the plan where they do not say their own.

    The plan's width is for the network that it was planned with, as its strides are.
    """
    network, training = config.network, config.training
    meant = plan.filters if network.name == NetworkConfig().name else None
    width = {"filters": network.filters or meant or FILTERS}
    meant_precision = plan.precision if training.precision == "auto" else None
    length = {
        "steps": training.steps or plan.steps or STEPS,
        "precision": meant_precision or training.precision,
    }
    return config.model_copy(
        update={
            "network": network.model_copy(update=width),
            "training": training.model_copy(update=length),
        }
    )


def run_method(
    config: Config, plan: Plan, steps_per_epoch: int = 1, class_voxels: Sequence[int] = ()
) -> Method:
    """Build the method of a run, its weights drawn from the run's seed.

    Args:
        config: its settings.
        plan: of its project.
        steps_per_epoch: for methods whose ramps are given in epochs.
        class_voxels: of all labelled scans, background first, if these are at hand.
    """
    config = resolved(config, plan)
    facts = RunFacts(
        classes=plan.classes,
        channels=plan.channels,
        dimensions=plan.dimensions,
        total_steps=config.training.length,
        steps_per_epoch=steps_per_epoch,
        unlabelled_batch=config.data.batch[1],
        intensity_range=plan.intensity_range,
        intensity_limits=plan.intensity_limits,
        loss=config.loss,
        class_voxels=tuple(class_voxels),
    )
    network = partial(_network, config, plan)
    check_window(config, plan, run_crop(config, plan))
    check_weights(config, network)
    with torch.random.fork_rng(devices=[]):  # a caller's generator is none of our business
        torch.manual_seed(config.seed)
        method = build_method(config.method, network, facts)
    if config.network.statistics == "separate":
        split_statistics(method, *config.data.batch)
    return method


def _network(
    config: Config, plan: Plan, name: str | None = None, options: Mapping[str, Any] | None = None
) -> nn.Module:
    """The network of the settings, or another one as wide, for crops of the same size."""
    if name is not None:
        other = {"name": name, "strides": None, "options": dict(options or {})}
        config = config.model_copy(update={"network": config.network.model_copy(update=other)})
    return build_network(
        config.network.name,
        channels=plan.channels,
        classes=plan.classes,
        dimensions=plan.dimensions,
        filters=config.network.width,
        options=config.network.options,
        crop=run_crop(config, plan)[-plan.dimensions :],
        strides=run_strides(config, plan),
        normalisation=config.network.normalisation,
        decoder=config.network.decoder,
    )


def run_crop(config: Config, plan: Plan) -> Size:
    """The crop of a run in the store's axis order; a slice thick in 2D projects."""
    crop = _given_crop(config, plan)
    check_crop(config.network.name, crop[-plan.dimensions :], run_strides(config, plan))
    return crop


def run_strides(config: Config, plan: Plan) -> Strides:
    """How the networks of a run go down their levels; empty for those that cannot be told.

    The plan's go with the plan's crop; for another crop that they do not fit, new ones are chosen.
    """
    name, given = config.network.name, config.network.strides
    if given is not None:
        check_strided(name, plan.dimensions)
        check_levels(given)
        problem = form_problem(given, plan.dimensions)
        if problem:
            raise UserError(f"network.strides {list(map(list, given))}: {problem}")
        return given or network_facts(name, plan.dimensions).own_strides(plan.dimensions)
    if not is_strided(name, plan.dimensions):
        return ()
    crop = _given_crop(config, plan)[-plan.dimensions :]
    own = network_facts(name, plan.dimensions).own_strides(plan.dimensions)
    if not plan.strides:
        return own
    if not crop_problem(plan.strides, crop):
        return plan.strides
    return choose_strides(crop, plan.spacing_mm[-plan.dimensions :]) or own


def _given_crop(config: Config, plan: Plan) -> Size:
    crop = tuple(config.data.crop or plan.crop)
    if plan.dimensions == 2 and len(crop) == 2:
        crop = (1, *crop)
    if len(crop) != 3 or (plan.dimensions == 2 and crop[0] != 1):
        raise UserError(
            f"data.crop {list(crop)} has not the {plan.dimensions} axes of a {plan.dimensions}D "
            f"project; give one length for each, e.g. {list(plan.crop[-plan.dimensions :])}"
        )
    return crop


def choose_device(name: str) -> torch.device:
    """`auto`, `cpu`, `cuda`, `cuda:N` or `mps`; `auto` takes the best that is there."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device '{name}' is unknown; use auto, cpu, cuda:N or mps") from None
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not present.get(device.type, False):
        raise UserError(f"--device '{name}' is not on this machine; use auto or cpu")
    return device


def machine_name(device: torch.device, processors: Path = Path("/proc/cpuinfo")) -> str:
    """What computes on a device: a GPU's name, or the processor with the instructions torch uses.

    Times of two runs compare only where this is the same.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = processors.read_text(encoding="utf-8", errors="replace").splitlines()
        models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        name = next(models, name)
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


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
    _check_fits(count * WEIGHT_BYTES, what, "network.filters")


def check_window(config: Config, plan: Plan, crop: Size) -> None:
    """Refuse windows that a network cannot predict one of."""
    _check_fits(_map_bytes(config, plan, crop), f"a window of {_sides(crop)} voxels", "data.crop")


def check_step(config: Config, plan: Plan, crop: Size, device: torch.device) -> None:
    """Refuse crops and batches of which a step cannot hold the maps that it needs at the least."""
    crops = sum(config.data.batch)
    what = f"a step with {crops:,} crops of {_sides(crop)} voxels"
    fix = "data.crop, data.labelled_batch or data.unlabelled_batch"
    _check_fits(crops * _map_bytes(config, plan, crop), what, fix, device)


def _map_bytes(config: Config, plan: Plan, crop: Size) -> int:
    return prod(crop) * (config.network.width + plan.classes + plan.channels) * VALUE_BYTES


def _sides(crop: Size) -> str:
    return " x ".join(f"{side:,}" for side in crop)


def _check_fits(needed: int, what: str, settings: str, device: torch.device | None = None) -> None:
    available = available_bytes()
    if device is not None and device.type == "cuda":
        available = torch.cuda.get_device_properties(device).total_memory
    if available is not None and needed > available:
        raise UserError(
            f"{what} needs at least {as_gib(needed)} of memory, and {as_gib(available)} are "
            f"available; make {settings} smaller"
        )
