"""The paper's tables of results, row by row, and the settings that would make each row."""

from dataclasses import dataclass

from tracoco.methods import METHODS
from tracoco.studies.paper.published import Published, published

TABLES = {
    "la": "Left Atrium, VNet: all methods with 8 and 16 labelled scans",
    "pancreas": "Pancreas-CT, VNet: all methods with 6 and 12 labelled scans",
    "brats19": "BraTS 2019, 3D UNet: all methods with 25 and 50 labelled scans",
    "acdc": "ACDC, 2D UNet: all methods with 3, 7 and 14 labelled patients",
    "component-ablation": "Translation consistency and CRC, added one after the other",
    "loss-ablation": "What a network learns from its peer: MSE, KL, CE or CRC",
    "cct": "Connected-component thresholding, without and with it",
    "cac-comparison": "Context-aware consistency (CAC), alone and with co-training",
    "backbones": "TraCoCo on other networks",
    "overlap": "How much two crops have in common",
}

SETTINGS: dict[tuple[str, str], tuple[str, ...]] = {
    # Cross pseudo supervision, written as TraCoCo without its two parts; `cps` computes the same.
    ("component-ablation", "CPS + CutMix"): (
        "method.semi_supervised=ce",
        "method.translation=false",
    ),
    ("component-ablation", "TraCo"): ("method.semi_supervised=ce",),
    ("loss-ablation", "MSE"): ("method.semi_supervised=mse",),
    ("loss-ablation", "KL"): ("method.semi_supervised=kl",),
    ("loss-ablation", "CE"): ("method.semi_supervised=ce",),
    ("backbones", "3DUNet"): ("network.name=unet",),
    ("backbones", "3DnnUNet"): ("network.name=monai:DynUNet", "network.filters=32"),
    ("backbones", "TransUNet*"): (
        "network.name=transunet",
        "data.crop=[96, 96]",
        "inference.stride=[16, 16]",
    ),
    ("overlap", "quarter"): ("data.overlap=quarter",),
    ("overlap", "half"): ("data.overlap=half",),
    ("overlap", "full"): ("data.overlap=full",),
    ("overlap", "random"): ("data.overlap=random",),
}
"""Rows that are TraCoCo with something changed: what they change in the preset."""

WITH_SCALES = "pancreas"
"""The table with a column "scales", by which its two rows MC-Net+ are told apart."""

MULTISCALE: dict[str, tuple[str, ...]] = {
    "urpc": (),  # it compares the levels of its decoder as it is
    "mc-net-plus": ("method.scales=all",),
}
"""Methods that a table marks as learning at several scales: what makes them do so."""

SLICES = {("backbones", "TransUNet*")}
"""Rows that need a project of slices: `tracoco init --dimensions 2`."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One published result and how to get one's own."""

    published: Published

    @property
    def key(self) -> tuple[str, str]:
        """Table and row."""
        return self.published.table, self.published.row

    @property
    def data(self) -> str:
        """What `--project` calls the project of this row."""
        dataset = self.published.dataset
        return f"{dataset}-slices" if self.key in SLICES else dataset

    @property
    def preset(self) -> str:
        """The preset of its data set and labels."""
        return f"{self.published.dataset}-{self.published.labelled}"

    @property
    def checkpoint(self) -> str:
        """Which checkpoint the paper tests."""
        return "best" if self.published.best else "last"

    @property
    def changes(self) -> tuple[str, ...]:
        """What the row changes in the preset."""
        if self.key in SETTINGS:
            return ("method.name=tracoco", *SETTINGS[self.key])
        method = self.published.method
        scales = MULTISCALE.get(method, ()) if self.published.multiscale else ()
        return (f"method.name={method}", *scales)

    @property
    def scales(self) -> str:
        """How many scales the method learns at, in the table that has a column for it."""
        if self.published.table != WITH_SCALES:
            return ""
        return "multi" if self.published.multiscale else "single"

    @property
    def missing(self) -> str:
        """Why the row cannot be run, if it cannot."""
        if self.published.method not in METHODS:
            return "this version does not have the method"
        return ""


def table_rows(table: str) -> list[PaperRow]:
    """The rows of a table in the paper's order."""
    return [PaperRow(each) for each in published(table)]
