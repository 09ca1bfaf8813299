"""Write the table of values that medpy and MONAI give, which the tests of our metrics compare with.

The table holds values only: masks are drawn again, here and in the tests. It needs an environment
of its own, with medpy and MONAI beside tracoco:

    python scripts/make_metric_oracle.py tests/evaluation/oracle.json
"""

import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.files import write_json

Mask = NDArray[np.bool_]
TOLERANCE = 1.5


@dataclass(frozen=True, slots=True)
class Pair:
    """How to draw a prediction and a truth: balls of a few voxels, and single voxels strewn in."""

    name: str
    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    balls: int = 3
    radius: int = 6
    strewn: float = 0.0
    """Share of voxels set at random, which makes surfaces ragged and far apart."""


PAIRS = (
    Pair("isotropic", (24, 26, 28), (1.0, 1.0, 1.0)),
    Pair("thick slices", (30, 28, 12), (0.7, 0.7, 3.0)),
    Pair("odd spacing", (16, 24, 20), (2.5, 0.313, 0.977)),
    Pair("ragged", (20, 20, 20), (1.25, 1.25, 2.0), strewn=0.02),
    Pair("noise", (12, 13, 14), (1.0, 0.8, 1.2), balls=0, strewn=0.5),
    Pair("across the border", (14, 14, 14), (1.5, 1.5, 1.5), radius=7),
    Pair("far apart", (50, 9, 9), (1.0, 2.0, 2.0), balls=1, radius=2),
    Pair("few slices", (32, 32, 3), (1.4, 1.4, 8.0)),
    Pair("image", (48, 40), (1.0, 1.0), radius=9),
    Pair("image, odd spacing", (40, 56), (0.45, 1.3), radius=8),
    Pair("image, ragged", (32, 32), (1.0, 1.5), strewn=0.05),
)


def draw(pair: Pair) -> tuple[Mask, Mask]:
    """Prediction and truth, the same on every machine."""
    generator = np.random.default_rng(PAIRS.index(pair))
    return _draw_mask(pair, generator), _draw_mask(pair, generator)


def _draw_mask(pair: Pair, generator: np.random.Generator) -> Mask:
    mask = generator.random(pair.shape) < pair.strewn
    grid = np.indices(pair.shape)
    for _ in range(pair.balls):
        centre = generator.integers(0, pair.shape).reshape(-1, *(1,) * len(pair.shape))
        mask |= ((grid - centre) ** 2).sum(axis=0) <= pair.radius**2
    return mask


def medpy_values(pair: Pair) -> dict[str, float]:
    """What medpy says, in millimetres and in voxels."""
    from medpy.metric import binary  # noqa: PLC0415  the tests draw masks where medpy is missing

    prediction, truth = draw(pair)
    values = {
        "dice": binary.dc(prediction, truth),
        "jaccard": binary.jc(prediction, truth),
        "volume_error": binary.ravd(prediction, truth),
    }
    for unit, spacing in (("mm", pair.spacing), ("voxel", None)):
        values |= {
            f"asd {unit}": binary.asd(prediction, truth, spacing),
            f"assd {unit}": binary.assd(prediction, truth, spacing),
            f"hd95 {unit}": binary.hd95(prediction, truth, spacing),
        }
    return {key: float(value) for key, value in values.items()}


def monai_values(pair: Pair) -> dict[str, float]:
    """What MONAI says, in millimetres. Its hd95 is defined otherwise, so it is left out."""
    import torch  # noqa: PLC0415  as above
    from monai.metrics import (  # noqa: PLC0415  as above
        compute_average_surface_distance,
        compute_dice,
        compute_surface_dice,
    )

    prediction, truth = (torch.from_numpy(mask)[None, None].float() for mask in draw(pair))
    both: dict[str, Any] = {"include_background": True, "spacing": pair.spacing}
    asd, assd = (
        compute_average_surface_distance(prediction, truth, symmetric=symmetric, **both)
        for symmetric in (False, True)
    )
    return {
        "dice": float(compute_dice(prediction, truth)),
        "asd mm": float(asd),
        "assd mm": float(assd),
        "nsd mm": float(compute_surface_dice(prediction, truth, [TOLERANCE], **both)),
    }


def table() -> dict[str, Any]:
    """Versions, and one row a pair; voxel counts show whether the masks were drawn alike."""
    pairs = {
        pair.name: {
            "voxels": [int(mask.sum()) for mask in draw(pair)],
            "medpy": medpy_values(pair),
            "monai": monai_values(pair),
        }
        for pair in PAIRS
    }
    return {"versions": {name: version(name) for name in ("medpy", "monai")}, "pairs": pairs}


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), table())
