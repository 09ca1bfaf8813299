"""All drawings of the paper's figures: plain data in, a figure out, nothing drawn on a screen."""

from tracoco.paper.drawings.context import ContextAnswer, context_figure
from tracoco.paper.drawings.results import (
    ComparedRow,
    LabelPoint,
    ThresholdPoint,
    by_label_count,
    published_versus_ours,
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
    "ComparedRow",
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
    "published_versus_ours",
    "qualitative",
    "threshold_curves",
    "training_time",
]
