"""How hard each loss pulls: the paper's table of gradients, worked out by our own losses."""

from dataclasses import asdict, dataclass
from functools import partial

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table

from tracoco.losses.consistency import ce_loss, mse_loss
from tracoco.losses.crc import PeerLoss, crc_loss
from tracoco.studies.paper.contents import Shown
from tracoco.studies.paper.published import published_gradients
from tracoco.studies.paper.request import PaperRequest

LOSSES: dict[str, PeerLoss] = {
    "mse": mse_loss,
    "ce": ce_loss,
    "crc": partial(crc_loss, gamma=0.65, beta=0.1),
}
ROUNDING = 0.006
"""The paper prints two or three digits, and cuts one of them off."""


@dataclass(frozen=True, slots=True)
class GradientRow:
    """One gradient, as published and as we work it out, by the probabilities of the first class."""

    confidence: str
    pseudo_label: float
    prediction: float
    loss: str
    published: float
    ours: float

    @property
    def agrees(self) -> bool:
        """Whether the published figure is ours, up to its rounding."""
        return abs(self.published - self.ours) <= ROUNDING


def gradient_analysis() -> list[GradientRow]:
    """All 18 gradients of the paper's table, in its order."""
    return [
        GradientRow(
            line.confidence,
            line.pseudo_label,
            line.prediction,
            line.loss,
            line.gradient,
            simplex_gradient(LOSSES[line.loss], line.pseudo_label, line.prediction),
        )
        for line in published_gradients()
    ]


def simplex_gradient(loss: PeerLoss, pseudo_label: float, prediction: float) -> float:
    """The derivative d loss / d p0 at one voxel of two classes, where p1 = 1 - p0 goes along."""
    first = torch.tensor(prediction, dtype=torch.float64, requires_grad=True)
    # Logarithms of probabilities are logits: softmax gives the probabilities back.
    logits = torch.stack([first, 1 - first]).log().reshape(1, 2, 1, 1)
    peer = torch.tensor([pseudo_label, 1 - pseudo_label], dtype=torch.float64).reshape(1, 2, 1, 1)
    valid = torch.ones(1, 1, 1, dtype=torch.bool)
    (gradient,) = torch.autograd.grad(loss(logits, peer, valid), first)
    return float(gradient)


def explain_gradient() -> str:
    """Which derivative the rows show."""
    return (
        "Each gradient is the derivative of the loss of one voxel by the predicted probability of "
        "the first of two classes, while that of the second goes down as the first goes up. "
        "CRC has the thresholds 0.65 and 0.1."
    )


def explain_slips() -> str:
    """Why the published figures of MSE are not ours."""
    return (
        "The published figures of MSE do not follow from the paper's own formula: they are half "
        "of what its expressions give, have the wrong sign where the prediction exceeds the "
        "pseudo-label, and take 0.95 - 0.2 for 0.7 and 0.95 - 0.8 for 0.1."
    )


def show_gradients(request: PaperRequest) -> Shown:  # noqa: ARG001 - needs no project
    """All gradients; those of MSE are marked where the paper's misprints show."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for heading in ("pseudo-label", "of the first class", "prediction", "loss"):
        table.add_column(heading)
    for heading in ("published", "ours"):
        table.add_column(heading, justify="right")
    rows = gradient_analysis()
    for row in rows:
        cells = (row.confidence, f"{row.pseudo_label:g}", f"{row.prediction:g}", row.loss)
        table.add_row(
            *cells, f"{row.published:g}{'' if row.agrees else ' *'}", f"{row.ours + 0.0:.4g}"
        )
    table.title = "Gradients of MSE, CE and CRC"
    lines = (explain_gradient(), f"* {explain_slips()}")
    values = {
        "derivative": explain_gradient(),
        "rows": [asdict(row) | {"agrees": row.agrees} for row in rows],
    }
    return Shown(table, values, lines)
