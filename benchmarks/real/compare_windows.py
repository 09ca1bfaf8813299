"""Compare ways to cover scans with windows: Dice and time of runs that are trained.

`python -m benchmarks.real.compare_windows PROJECT RUN...` prints a table. The scans are the test
cases of the project. Times are those of the processor, since machines are seldom idle.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.real.markdown import table
from tracoco.config import InferenceConfig
from tracoco.console import say
from tracoco.evaluation.validation import mean_dice
from tracoco.inference.any_size import window_needs
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import chosen_cover
from tracoco.inference.windows import Demand, window_places
from tracoco.networks.network import Network
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase

OVERLAPS = {"no overlap": 0.0, "half": 0.5, "three quarters": 0.75}
DENSE = "crop, dense strides, uniform"
"""What all others are compared with: as the papers do it."""
STEPS = 6
"""Dense strides: windows lie this part of a crop apart."""
CROPS = 3
"""Large windows within a bound on memory: as much as so many crops take."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one way on one scan with one run."""

    way: str
    windows: int
    dice: float
    """In percent."""
    seconds: float


def ways(predictor: Predictor) -> Iterator[tuple[str, InferenceConfig]]:
    """Every way that is compared, by its name; large windows where the network can have them."""
    crop = predictor.window
    steps = tuple(max(1, length // STEPS) for length in crop)
    for weights in ("gaussian", "uniform"):
        for name, share in OVERLAPS.items():
            yield f"crop, {name}, {weights}", _config(weights, window="crop", overlap=share)
        yield f"crop, dense strides, {weights}", _config(weights, stride=steps)
    larger = tuple(2 * length if length > 1 else 1 for length in crop)
    if chosen_cover(predictor.method, larger, crop, InferenceConfig(window="auto")).window == crop:
        return
    yield "whole scan", _config("gaussian", window="auto", memory_gb=1e3)
    networks = [
        part for part in predictor.method.inference_network().modules() if isinstance(part, Network)
    ]
    bound = CROPS * Demand(crop, window_needs(networks)).bytes_for(crop) / 1e9
    for weights in ("gaussian", "uniform"):
        for name in ("no overlap", "half"):
            config = _config(weights, window="auto", memory_gb=bound, overlap=OVERLAPS[name])
            yield f"memory of {CROPS} crops, {name}, {weights}", config


def measured(predictor: Predictor, cases: Iterable[StoredCase]) -> Iterator[Figures]:
    """Each way on each scan; the ways take turns, so that all have the same machine."""
    for case in cases:
        for name, config in ways(predictor):
            began = time.process_time()
            dice = mean_dice(predictor.method, [case], predictor.window, config, predictor.device)
            seconds = time.process_time() - began
            cover = chosen_cover(predictor.method, case.shape, predictor.window, config)
            padded = tuple(map(max, case.shape, cover.window))
            yield Figures(name, len(window_places(padded, *cover[:2])), 100 * dice, seconds)


def compared(found: list[Figures]) -> str:
    """The table of all ways, means over scans and runs."""
    by_way = {each.way: [one for one in found if one.way == each.way] for each in found}
    dense = fmean(each.dice for each in by_way[DENSE])
    rows = [
        (
            name,
            f"{fmean(each.windows for each in each_scan):.1f}",
            f"{(dice := fmean(each.dice for each in each_scan)):.2f}",
            f"{dice - dense:+.2f}",
            f"{fmean(each.seconds for each in each_scan):.3f}",
        )
        for name, each_scan in by_way.items()
    ]
    return table(("windows", "a scan", "Dice", "above dense", "seconds a scan"), rows)


def _config(weights: str, **settings: Any) -> InferenceConfig:
    return InferenceConfig.model_validate({"weights": weights, **settings})


def main(project: Path, runs: list[Path]) -> None:
    """Measure all runs on the test cases of a project, and print the table."""
    store, splits = Store(Project(project).store_root), Project(project).load_splits()
    cases = [store.case(id_) for id_ in splits.test]
    found: list[Figures] = []
    for run in runs:
        found += measured(Predictor.load(run), cases)
        say(f"{run.name}: measured")
    say(compared(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
