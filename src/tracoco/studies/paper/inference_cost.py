"""What each row of a table predicts with: parameters and multiply-accumulates beside the paper's.

Networks are built without values, so that a listing stays quick.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from rich.box import SIMPLE_HEAD
from rich.table import Table
from torch import nn

from tracoco.config import Config
from tracoco.console import counted
from tracoco.errors import UserError
from tracoco.evaluation.complexity import Complexity, InferenceCounter, complexity, seconds_a_window
from tracoco.geometry import Size
from tracoco.inference.windows import window_places
from tracoco.networks import build_network
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.runs.build import choose_device
from tracoco.studies.paper.contents import Shown
from tracoco.studies.paper.fill import FilledRow
from tracoco.studies.paper.published import Published, published
from tracoco.studies.paper.request import PaperRequest
from tracoco.studies.paper.table_rows import PaperRow
from tracoco.text import number

CLASSES = {"la": 2, "pancreas": 2, "brats19": 2, "acdc": 4}
"""Of each data set, the background included; all have one channel."""

CONVENTION = (
    "Parameters and MACs are of the network that predicts, for one crop. MACs are counted by the "
    "rules of thop, as in the paper; --json has the true ones (our_true_macs_g). The paper cuts "
    "9.449 off to 9.44."
)

_UNET = (
    "the published complexity is that of URPC's 3D UNet; ours runs the VNet of the table's other "
    "rows"
)
_TWO_TEACHERS = (
    "ours predicts with the mean of two teachers; the published complexity is of one network"
)
_TWO_NETWORKS = "the published complexity is of two networks; ours predicts with one"
_HEADS = (
    "the published parameters presumably include heads that serve training; ours are of the "
    "network that predicts"
)
DIFFERENCES = {
    ("la", "urpc"): _UNET,
    ("pancreas", "urpc"): _UNET,
    ("pancreas", "mc-net-plus"): _UNET,
    ("pancreas", "ps-mt"): f"{_UNET}, and predicts with the mean of two teachers",
    ("la", "ps-mt"): _TWO_TEACHERS,
    ("brats19", "ps-mt"): _TWO_TEACHERS,
    ("acdc", "ps-mt"): _TWO_TEACHERS,
    ("pancreas", "mc-caussl"): _TWO_NETWORKS,
    ("brats19", "mc-caussl"): _TWO_NETWORKS,
    ("acdc", "bcp-caussl"): _TWO_NETWORKS,
    ("acdc", "ss-net"): _HEADS,
    ("acdc", "cross-ald"): _HEADS,
    ("acdc", "mc-net-plus"): "the published parameters are of two decoders; ours predicts with one",
}
"""Why ours is not the published complexity, by table and method, where the two differ."""
NETWORK_SETTINGS = ("network.", "method.", "data.crop=")
"""Settings that make ours another network than the paper's."""
NOTABLE = 0.005
"""Difference, as a fraction of the published value, above which a row says why."""


def with_costs(rows: Sequence[FilledRow], request: PaperRequest) -> list[FilledRow]:
    """The rows with the cost of ours, if the table publishes any, or why there is none."""
    counter = InferenceCounter()
    return [_with_cost(row, request, counter) for row in rows]


def _with_cost(row: FilledRow, request: PaperRequest, counter: InferenceCounter) -> FilledRow:
    if row.row.published.parameters_m is None or row.row.missing:
        return row
    try:
        config = request.spec(row.row.preset, row.row.changes).config(0)
        plan = _plan(row, request, config)
        cost = counter.count(config, plan) if plan else None
    except UserError as error:  # settings that this method cannot have
        return replace(row, reason=row.reason or str(error))
    return replace(row, cost=cost, cost_note=_difference(row.row, cost, request))


def _difference(row: PaperRow, cost: Complexity | None, request: PaperRequest) -> str:
    """Why the published complexity is another than ours, where it is and ours is the paper's."""
    changed = any(change.startswith(NETWORK_SETTINGS) for change in request.changes)
    if cost is None or request.preset or changed:
        return ""
    published = row.published
    pairs = (
        (published.parameters_m, cost.parameters / 1e6),
        (published.macs_g, cost.counted_macs / 1e9),
    )
    if not any(known and abs(ours / known - 1) > NOTABLE for known, ours in pairs):
        return ""
    return DIFFERENCES.get((published.table, published.method), "")


def _plan(row: FilledRow, request: PaperRequest, config: Config) -> Plan | None:
    """The plan of the project that ours ran on, else one for the paper's data.

    None where neither says what the network sees: settings without a crop leave it to a project.
    """
    runner = request.runner(row.row.data) if row.results else None
    if runner is not None:
        return runner.project.load_plan()
    return _papers_plan(row.row, tuple(config.data.crop)) if config.data.crop else None


def _papers_plan(row: PaperRow, crop: tuple[int, ...]) -> Plan:
    values = range(CLASSES[row.published.dataset])
    return Plan.model_validate(
        {
            "dimensions": len(crop),
            "channels": 1,
            "label_values": values,
            "class_names": map(str, values),
            "slice_axis": 2 if len(crop) == 2 else None,
            "spacing_mm": (None, None, None),
            "crop": (1, *crop)[-3:],
        }
    )


MEAN_SIZE: dict[str, Size] = {
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


def show_complexity(request: PaperRequest) -> Shown:
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


def _network(config: Config, crop: Size, classes: int) -> nn.Module:
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
