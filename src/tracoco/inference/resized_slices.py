"""Slices that are resized to the window, as the field tests its 2D networks on ACDC."""

import torch
from torch import Tensor

from tracoco.errors import UserError
from tracoco.geometry import Index
from tracoco.inference.sliding_window import Predict


def predict_resized(predict: Predict, volume: Tensor, window: Index, batch: int) -> Tensor:
    """Class probabilities [K, X, Y, Z] of a volume [C, X, Y, Z] whose slices lie along X.

    Each slice is resized to the window by its nearest voxels, and the probabilities back in the
    same way: the label of a voxel is that of the resized voxel which is nearest to it.

    Args:
        predict: the network with its softmax, for 2D crops.
        volume: the scan as it is prepared for the network.
        window: one slice thick.
        batch: slices that go through at once.
    """
    if window[0] != 1:
        raise UserError(
            f"resize_slices is for 2D projects, but the window {list(window)} is not one slice "
            "thick; set it to false in plan.yaml"
        )
    device = volume.device
    pairs = list(zip(volume.shape[2:], window[1:], strict=True))
    there = [nearest(size, length).to(device) for size, length in pairs]
    back = [nearest(length, size).to(device) for size, length in pairs]
    resized = volume[:, :, there[0]][..., there[1]].movedim(0, 1)
    answers = [predict(slices) for slices in resized.split(batch)]
    return torch.cat([one[:, :, back[0]][..., back[1]] for one in answers]).movedim(0, 1)


def nearest(source: int, target: int) -> Tensor:
    """The index of the nearest of `source` voxels for each of `target` voxels.

    The first and the last voxels of both lie on each other, as in `scipy.ndimage.zoom` with order
    0. For some sizes that function leaves the last voxel empty, which is a rounding error.
    """
    step = (source - 1) / max(target - 1, 1)
    places = torch.arange(target, dtype=torch.float64) * step
    return (places + 0.5).floor().long().clamp(max=source - 1)
