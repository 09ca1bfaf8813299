"""From a run's settings and plan to its method, the same for training and for prediction."""

from functools import partial

import torch

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.geometry import Index
from tracoco.methods.method import Method, RunFacts, build_method
from tracoco.networks.network import build_network, check_crop
from tracoco.project.plan import Plan


def run_method(config: Config, plan: Plan, steps_per_epoch: int = 1) -> Method:
    """Build the method of a run, its weights drawn from the run's seed."""
    facts = RunFacts(
        classes=plan.classes,
        channels=plan.channels,
        dimensions=plan.dimensions,
        total_steps=config.training.steps,
        steps_per_epoch=steps_per_epoch,
        unlabelled_batch=config.data.unlabelled_batch,
    )
    network = partial(
        build_network,
        config.network.name,
        channels=facts.channels,
        classes=facts.classes,
        dimensions=facts.dimensions,
        filters=config.network.filters,
        options=config.network.options,
        crop=run_crop(config, plan)[-plan.dimensions :],
    )
    with torch.random.fork_rng(devices=[]):  # a caller's generator is none of our business
        torch.manual_seed(config.seed)
        return build_method(config.method, network, facts)


def run_crop(config: Config, plan: Plan) -> Index:
    """The crop of a run in the store's axis order; a slice thick in 2D projects."""
    crop = tuple(config.data.crop or plan.crop)
    if plan.dimensions == 2 and len(crop) == 2:
        crop = (1, *crop)
    if len(crop) != 3 or (plan.dimensions == 2 and crop[0] != 1):
        raise UserError(
            f"data.crop {list(crop)} has not the {plan.dimensions} axes of a {plan.dimensions}D "
            f"project; give one length for each, e.g. {list(plan.crop[-plan.dimensions :])}"
        )
    check_crop(config.network.name, crop[-plan.dimensions :])
    return crop
