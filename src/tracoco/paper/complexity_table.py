"""`tracoco paper complexity`: what each of the paper's networks costs, published and counted."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from torch import nn

from tracoco.config import Config
from tracoco.console import counted
from tracoco.evaluation.complexity import complexity, seconds_a_window
from tracoco.geometry import Index
from tracoco.inference.sliding_window import window_places
from tracoco.networks.network import build_network
from tracoco.paper.contents import Shown
from tracoco.paper.inference_cost import CLASSES
from tracoco.paper.published import Published, published
from tracoco.paper.request import PaperRequest
from tracoco.presets import load_config
from tracoco.report.wording import number
from tracoco.training.team import choose_device

MEAN_SIZE: dict[str, Index] = {
    "la": (199, 142, 88),
    "pancreas": (185, 167, 243),
    "brats19": (187, 167, 151),
    "acdc": (256, 256),
}
"""Voxels of a mean scan, Sec. "Analysis of the Overlap Region"; ACDC counts by the slice."""


@dataclass(frozen=True, slots=True)
class ComplexityRow:
    """One network at one crop. Parameters in millions, MACs in thousands of millions."""

    dataset: str
    network: str
    crop: str
    parameters_m: float
    published_parameters_m: float | None
    macs_g: float
    counted_macs_g: float
    published_macs_g: float | None
    windows: int
    """Of a scan of the data set's mean size, at the paper's strides."""
    seconds_a_window: float
    seconds_a_case: float
    published_seconds_a_case: float | None


def complexity_answer(request: PaperRequest) -> Shown:
    """Count every network of the paper, and time one window of each on this machine."""
    with counted("timing", len(CLASSES), request.console) as on_network:
        rows = list(_rows(request, on_network))
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for heading in ("data", "network", "crop"):
        table.add_column(heading, no_wrap=True)
    for heading in ("param. M\nhere / publ.", "MACs G\ntrue", "MACs G\ncounted / publ."):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("s/case\nhere / publ.", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.dataset,
            row.network,
            row.crop,
            _beside(row.parameters_m, row.published_parameters_m),
            number(row.macs_g, 2),
            _beside(row.counted_macs_g, row.published_macs_g),
            _beside(row.seconds_a_case, row.published_seconds_a_case),
        )
    table.title = "Parameters, multiply-accumulates of one window, seconds a case"
    lines = (
        "MACs true: real multiply-accumulates; counted: as papers do (thop), transposed ones"
        " by their output and 2 for each normalised value. The paper cuts 9.449 M off to 9.44.",
        "s/case: windows of a scan of mean size x one window, timed here; a slice for ACDC. "
        "The published times are of a GPU.",
    )
    return Shown(table, {"rows": [asdict(row) for row in rows]}, lines)


def _rows(request: PaperRequest, on_network: Callable[[str], None]) -> Iterator[ComplexityRow]:
    device = choose_device(request.device)
    for dataset, classes in CLASSES.items():
        config, line = load_config(dataset), _published(dataset)
        crop = tuple(config.data.crop or ())
        network = _network(config, crop, classes)
        cost = complexity(network, crop)
        seconds = seconds_a_window(network.to(device), crop, device)
        count = len(window_places(MEAN_SIZE[dataset], crop, config.inference))
        yield ComplexityRow(
            dataset=dataset,
            network=f"{config.network.name} {len(crop)}D",
            crop="x".join(map(str, crop)),
            parameters_m=cost.parameters / 1e6,
            published_parameters_m=line.parameters_m,
            macs_g=cost.macs / 1e9,
            counted_macs_g=cost.counted_macs / 1e9,
            published_macs_g=line.macs_g,
            windows=count,
            seconds_a_window=seconds,
            seconds_a_case=count * seconds,
            published_seconds_a_case=_published_seconds(dataset),
        )
        on_network(dataset)


def _network(config: Config, crop: Index, classes: int) -> nn.Module:
    return build_network(
        config.network.name,
        channels=1,
        classes=classes,
        dimensions=len(crop),
        filters=config.network.width,
        crop=crop,
    )


def _published(dataset: str) -> Published:
    return next(row for row in published(dataset) if row.method == "tracoco")


def _published_seconds(dataset: str) -> float | None:
    rows = [row for row in published("cct") if row.dataset == dataset and not row.cct]
    return rows[0].seconds


def _beside(here: float, published_value: float | None) -> str:
    return f"{number(here, 2)} / {number(published_value, 2)}"
