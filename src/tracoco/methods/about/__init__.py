"""What is told of each method: where it is from, its formulas, and the readings that were taken.

One small file a method, `NAME.yaml`, with these keys:

    reference    authors, title, venue and year
    formulas     lines for a terminal; names of settings are written as they are
    readings     where publication or release leave room, and what is taken; faults not kept
    not_written  what of the publication this package does not have, if anything
"""

from dataclasses import dataclass
from importlib import resources

import yaml

NOTATION = (
    ("L, U", "labelled and unlabelled crops of a step; x a crop, y its label"),
    ("z, p", "logits and class probabilities of what learns; C classes with the background"),
    ("q, ŷ", "probabilities of a teacher or peer, and their likeliest class"),
    ("sg", "no gradient reaches what follows"),
    ("⟨·⟩", "mean over the voxels inside the scan, and over classes where a term has them"),
    ("CE, Dice", "mean cross-entropy; 1 - Dice with squared denominators, all crops together"),
    ("sup(·)", "CE + Dice of the foreground classes, the same in nearly every method"),
    ("H(p)", "entropy -Σ p ln p, as a share of ln C, from 0 to 1"),
    ("R(t, T)", "exp(-5 (1 - min(t, T) / T)²): rises to 1 within T steps; N is the whole run"),
    ("EMA(a)", "running average of the student that keeps a share a of itself at each step"),
)
"""What the formulas' letters mean."""


@dataclass(frozen=True, slots=True)
class About:
    """What a method's file says."""

    reference: str
    formulas: list[str]
    readings: list[str]
    not_written: list[str]


def read_about(name: str) -> About | None:
    """What is told of a method; None for one that is not of this package."""
    path = resources.files("tracoco") / "methods" / "about" / f"{name}.yaml"
    if not path.is_file():
        return None
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    return About(**({"not_written": []} | values))
