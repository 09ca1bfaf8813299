"""The table of methods: plain facts, so that listing them imports no torch.

A new method is one file (its settings and its class) and one row here; nothing else in the
package knows its name.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tracoco.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tracoco.methods.method import Method


@dataclass(frozen=True, slots=True)
class MethodRow:
    """What is known of a method without building it."""

    target: str
    """`module:Class`."""
    year: int | None
    """Of the publication; none for what is older than the field."""
    idea: str
    taught: tuple[str, ...]
    """Modules that unlabelled crops teach; a method without any is given no unlabelled crops."""
    pairs: bool
    """Whether it looks at the second crop of each pair; if not, those crops are not read."""
    caution: str = ""
    """What a run of this method tells its user before it starts, if anything."""


METHODS = {
    "supervised": MethodRow(
        target="tracoco.methods.supervised:Supervised",
        year=None,
        idea="Learn from the labelled scans alone: the bound that the others must beat.",
        taught=(),
        pairs=False,
    ),
    "mean-teacher": MethodRow(
        target="tracoco.methods.mean_teacher:MeanTeacher",
        year=2017,
        idea="Answer on unlabelled crops as the running average of yourself does.",
        taught=("student",),
        pairs=False,
    ),
    "cac": MethodRow(
        target="tracoco.methods.cac:CAC",
        year=2021,
        idea="See a voxel alike in two crops that overlap, and unlike voxels of another class.",
        taught=("network.encoder", "network.decoder", "contrast.projector"),
        pairs=True,
    ),
    "cps": MethodRow(
        target="tracoco.methods.cps:CPS",
        year=2021,
        idea="Two networks supervise each other with their hard labels, on mixed crops.",
        taught=("networks.0", "networks.1"),
        pairs=False,
    ),
    "cac-co": MethodRow(
        target="tracoco.methods.cac_co:CACCo",
        year=2024,
        idea="Cross pseudo supervision on mixed crops, with the contrast of `cac` in each network.",
        taught=("networks.0", "networks.1", "contrasts.0.projector", "contrasts.1.projector"),
        pairs=True,
    ),
    "tracoco": MethodRow(
        target="tracoco.methods.tracoco:TraCoCo",
        year=2024,
        idea="Two networks teach each other and answer alike wherever two crops overlap.",
        taught=("networks.0", "networks.1"),
        pairs=True,
    ),
    "tracoco-as-released": MethodRow(
        target="tracoco.methods.tracoco_as_released:TraCoCoAsReleased",
        year=2024,
        idea="TraCoCo as its authors' release computes it, which gave the published numbers.",
        taught=("networks.0", "networks.1"),
        pairs=True,
        caution="the release's translation loss compares logits along a spatial axis, not "
        "between classes, and is nearly without effect; `tracoco` is the method of the paper",
    ),
}


def method_row(name: str) -> MethodRow:
    """The row of a method, or an error that names the nearest one."""
    if name not in METHODS:
        raise UserError(f"method '{name}' does not exist; {did_you_mean(name, METHODS)}")
    return METHODS[name]


def method_class(name: str) -> "type[Method]":
    """Import a method's class."""
    module, _, attribute = method_row(name).target.partition(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found
