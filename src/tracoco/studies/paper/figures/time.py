"""The figure of training time: seconds a step of every method, from short runs."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from tracoco.errors import UserError
from tracoco.methods import METHODS
from tracoco.runs.build import choose_device
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.studies.paper.figure import Drawn
from tracoco.studies.paper.figures.figure_settings import (
    FigureRun,
    figure_notes,
    preset_for,
    published_data,
    stated,
    trained_runs,
)
from tracoco.studies.paper.figures.training_drawings import draw_training_time
from tracoco.studies.paper.request import PaperRequest
from tracoco.text import count

OWN = "brats19-25"
STEPS, WARM_UP = 30, 5
SHORT = (f"training.steps={STEPS}", "inference.stride=null", "inference.overlap=0")
"""The validation at a run's end is not timed: as few windows as there can be."""


def training_time(request: PaperRequest, data: str) -> Drawn:
    """Train each method for a few steps; nothing is tested."""
    preset = preset_for(request, data, OWN)
    changes = (*SHORT, *batch_changes())
    names = [name for name, row in METHODS.items() if row.alone]
    runs = [FigureRun(name, preset, (f"method.name={name}", *changes)) for name in names]
    seconds: dict[str, list[float]] = defaultdict(list)
    conditions = []
    for run, _, folder in trained_runs(request, data, runs):
        seconds[run.title] += step_seconds(folder)
        conditions.append(_conditions(RunFolder(folder), choose_device(request.device)))
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    spreads = {name: half_interquartile(values) for name, values in seconds.items()}
    published = stated("training-time", published_data(data, OWN))
    rows = [
        {
            "method": name,
            "seconds_a_step": median,
            "spread": spreads[name],
            "times_supervised": median / medians["supervised"],
            "times_cac": median / medians["cac"],
            "published_times_cac": published.get((name, "time_as_share_of_cac")),
        }
        for name, median in medians.items()
    ]
    figure = draw_training_time([(name, medians[name], spreads[name]) for name in medians])
    notes = (
        f"median of the steps after the first {WARM_UP}; spread: half of the interquartile range",
        "reading scans is not counted, and supervised is given no unlabelled crops",
        *dict.fromkeys(conditions),
        *figure_notes(request, data, OWN),
    )
    return Drawn(figure, rows, notes)


def batch_changes() -> tuple[str, ...]:
    """The published batch; half of its crops have labels, as in the paper's other trainings."""
    half = _published_batch() // 2
    return f"data.labelled_batch={half}", f"data.unlabelled_batch={half}"


def _published_batch() -> int:
    """Crops of a batch, whatever the data set that is drawn."""
    return int(stated("training-time", published_data("", OWN))["all", "batch_crops"])


def step_seconds(folder: Path) -> list[float]:
    """Of a run's steps but the first few, in which caches warm up and kernels are chosen."""
    log = read_log(RunFolder(folder).log_file)
    if len(log) <= WARM_UP:
        raise UserError(
            f"{folder} has {len(log)} steps, of which the first {WARM_UP} are not timed; "
            f"leave training.steps out, or set it to more than {WARM_UP}"
        )
    return [record.seconds for record in log[WARM_UP:]]


def half_interquartile(values: Sequence[float]) -> float:
    """Half of the range that the middle half of the values takes."""
    low, high = np.percentile(values, (25, 75))
    return float(high - low) / 2


def _conditions(run: RunFolder, device: torch.device) -> str:
    if device.type == "cuda":
        place = torch.cuda.get_device_name(device)
    else:
        place = f"{device.type} with {count(run.facts().threads or 1, 'thread')}"
    data = run.config().data
    crop = "x".join(map(str, data.crop or ()))
    labelled, unlabelled = data.batch
    return (
        f"on {place}, batches of {labelled} labelled and {unlabelled} unlabelled crops of {crop} "
        f"voxels; the paper's batch is {_published_batch()} crops"
    )
