"""How long something takes on a machine that is never quite idle."""

import time
from collections.abc import Callable, Sequence

import numpy as np


def best_of(rounds: int, *functions: Callable[[], object], warm: bool = False) -> list[float]:
    """Least seconds of each function, called in turns, so that all see the same machine.

    Unless they are warm, each is called once before the clock runs: files are then in the page
    cache, kernels chosen.
    """
    for function in () if warm else functions:
        function()
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            best[index] = min(best[index], seconds(function))
    return best


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def growth_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size that the cost grows with: 1 is linear, 2 quadratic."""
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)
