"""All drawings of the paper's figures: plain data in, a figure out, nothing drawn on a screen."""

from tracoco.paper.drawings.context import ContextAnswer, context_figure
from tracoco.paper.drawings.results import (
    LabelPoint,
    ThresholdPoint,
    by_label_count,
    threshold_curves,
)
from tracoco.paper.drawings.training import (
    DivergenceSeries,
    TimeRow,
    confidence_histograms,
    divergence,
    training_time,
)
from tracoco.paper.drawings.volumes import QualitativeColumn, mean_dice, qualitative

__all__ = [
    "ContextAnswer",
    "DivergenceSeries",
    "LabelPoint",
    "QualitativeColumn",
    "ThresholdPoint",
    "TimeRow",
    "by_label_count",
    "confidence_histograms",
    "context_figure",
    "divergence",
    "mean_dice",
    "qualitative",
    "threshold_curves",
    "training_time",
]
