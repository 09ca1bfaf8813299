"""What each row of a table predicts with: parameters and multiply-accumulates beside the paper's.

Networks are built without values, so that a listing stays quick.
"""

from collections.abc import Sequence
from dataclasses import replace

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.evaluation.complexity import Complexity, InferenceCounter
from tracoco.paper.fill import FilledRow
from tracoco.paper.request import PaperRequest
from tracoco.paper.rows import PaperRow
from tracoco.project.plan import Plan

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
    ("brats19", "mc-net-plus"): (
        "ours predicts with the first decoder, which has transposed convolutions; the published "
        "complexity is of the plain 3D UNet"
    ),
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
