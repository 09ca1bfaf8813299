"""Score a method while it is trained, on prepared cases that it does not learn from."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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

Show = Callable[[StoredCase, NDArray[Any]], None]
"""Is given a case, and the class indices that are predicted for its voxels."""


def mean_dice(  # noqa: PLR0913 - the last ones are what a training adds
    method: Method,
    cases: Sequence[StoredCase],
    crop: Size,
    config: InferenceConfig,
    device: torch.device,
    stop: StopRequest | None = None,
    *,
    show: Show | None = None,
) -> float:
    """Mean Dice over the structures that the cases have; one that is missed counts as 0.

    Voxels that are not drawn do not count. A request to stop is met before the next windows: then
    this raises `Stopped`. The first case is shown with what is predicted for it.
    """
    scores = []
    with ready_to_predict(method) as ready:

        def predict(windows: Tensor) -> Tensor:
            if stop and stop.signal:
                raise Stopped("stopped while cases were scored", stop.signal)
            return ready.predict(windows)

        for number, case in enumerate(cases):
            volume = torch.from_numpy(np.array(case.image())).to(device)
            cover = chosen_cover(method, volume.shape[1:], crop, config)
            prediction = predict_volume(predict, volume, *cover)
            found, truth = prediction.argmax(dim=0).cpu().numpy(), case.label()
            if show and number == 0:
                show(case, found)
            known = truth != UNDRAWN_INDEX
            present = np.unique(truth[is_structure(truth)])
            scores += [dice((found == k) & known, truth == k) or 0.0 for k in present]
    return float(np.mean(scores)) if scores else 0.0
