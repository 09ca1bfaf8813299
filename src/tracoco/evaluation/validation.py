"""Score a method while it is trained, on prepared cases that it does not learn from."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.errors import Stopped
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Size
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.sliding_window import chosen_cover, predict_volume
from tracoco.methods.method import Method
from tracoco.processes import StopRequest
from tracoco.project.preprocess import UNDRAWN_INDEX, is_structure
from tracoco.project.store import StoredCase


def mean_dice(
    method: Method,
    cases: Sequence[StoredCase],
    crop: Size,
    config: InferenceConfig,
    device: torch.device,
    stop: StopRequest | None = None,
) -> float:
    """Mean Dice over the structures that the cases have; one that is missed counts as 0.

    Voxels that are not drawn do not count. A request to stop is met before the next windows: then
    this raises `Stopped`.
    """
    scores = []
    with ready_to_predict(method) as ready:

        def predict(windows: Tensor) -> Tensor:
            if stop and stop.signal:
                raise Stopped("stopped while cases were scored", stop.signal)
            return ready.predict(windows)

        for case in cases:
            volume = torch.from_numpy(np.array(case.image())).to(device)
            cover = chosen_cover(method, volume.shape[1:], crop, config)
            prediction = predict_volume(predict, volume, *cover)
            found, truth = prediction.argmax(dim=0).cpu().numpy(), case.label()
            known = truth != UNDRAWN_INDEX
            present = np.unique(truth[is_structure(truth)])
            scores += [dice((found == k) & known, truth == k) or 0.0 for k in present]
    return float(np.mean(scores)) if scores else 0.0
