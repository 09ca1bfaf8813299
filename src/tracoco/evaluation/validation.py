"""Score a method while it is trained, on prepared cases that it does not learn from."""

from collections.abc import Sequence

import numpy as np
import torch

from tracoco.config import InferenceConfig
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Size
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.sliding_window import chosen_cover, predict_volume
from tracoco.methods.method import Method
from tracoco.project.store import StoredCase


def mean_dice(
    method: Method,
    cases: Sequence[StoredCase],
    crop: Size,
    config: InferenceConfig,
    device: torch.device,
) -> float:
    """Mean Dice over the structures that the cases have; one that is missed counts as 0."""
    scores = []
    with ready_to_predict(method) as ready:
        for case in cases:
            volume = torch.from_numpy(np.array(case.image())).to(device)
            cover = chosen_cover(method, volume.shape[1:], crop, config)
            prediction = predict_volume(ready.predict, volume, *cover)
            found, truth = prediction.argmax(dim=0).cpu().numpy(), case.label()
            present = [index for index in np.unique(truth) if index != 0]
            scores += [dice(found == index, truth == index) or 0.0 for index in present]
    return float(np.mean(scores)) if scores else 0.0
