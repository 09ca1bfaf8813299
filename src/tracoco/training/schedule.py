"""The learning rate of each step."""

import math

from tracoco.config import OptimizerConfig


def learning_rate(step: int, total_steps: int, config: OptimizerConfig) -> float:
    """Rate of a step counted from 0: a linear warm-up, then a fall to zero at the end of the run.

    poly: lr * (1 - t) ** poly_power; cosine: lr * (1 + cos(pi * t)) / 2, where t is the share of
    the steps after the warm-up that are done.
    """
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    done = (step - warmup) / (total_steps - warmup)
    if config.schedule == "cosine":
        return config.lr * (1 + math.cos(math.pi * done)) / 2
    return float(config.lr * (1 - done) ** config.poly_power)
