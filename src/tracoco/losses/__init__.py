"""One equation, one pure function: any number of classes, 2D and 3D, means instead of sums.

For training loops of your own, `tracoco.losses` has all of them by name. `valid` may be left out
where crops have no padding, and thresholds and weights are by default those of the paper.
"""

from tracoco.losses.consistency import (
    ce_loss,
    class_distance,
    joint_distance,
    kl_loss,
    mse_loss,
    mutual_loss,
    normalised_entropy,
    prediction_distance,
    self_information,
    sharpened,
    weighted_mse,
)
from tracoco.losses.crc import (
    class_negative_weight,
    crc_loss,
    minimum_negative_weight,
    positive_weight,
    semi_supervised_loss,
)
from tracoco.losses.supervised import (
    class_dice_losses,
    cross_entropy,
    dice_loss,
    supervised_loss,
)
from tracoco.losses.translation import (
    Overlap,
    negative_entropy,
    overlap_divergence,
    translation_terms,
)
from tracoco.losses.weighting import (
    cosine_rampup,
    linear_rampup,
    log_complement,
    masked_mean,
    most_likely,
    sigmoid_rampup,
)

__all__ = [
    "Overlap",
    "ce_loss",
    "class_dice_losses",
    "class_distance",
    "class_negative_weight",
    "cosine_rampup",
    "crc_loss",
    "cross_entropy",
    "dice_loss",
    "joint_distance",
    "kl_loss",
    "linear_rampup",
    "log_complement",
    "masked_mean",
    "minimum_negative_weight",
    "most_likely",
    "mse_loss",
    "mutual_loss",
    "negative_entropy",
    "normalised_entropy",
    "overlap_divergence",
    "positive_weight",
    "prediction_distance",
    "self_information",
    "semi_supervised_loss",
    "sharpened",
    "sigmoid_rampup",
    "supervised_loss",
    "translation_terms",
    "weighted_mse",
]
