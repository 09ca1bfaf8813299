"""Slices resized to the window and back, against scipy's nearest neighbours."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import zoom
from torch import Tensor

from tracoco.errors import UserError
from tracoco.inference.predictor import predict_resized
from tracoco.inference.windows import nearest


@given(st.integers(2, 600), st.integers(2, 600))
def test_indices_are_those_of_scipy(source: int, target: int) -> None:
    # Counted from 1, since scipy writes 0 where rounding takes it beyond the last voxel.
    expected = zoom(np.arange(1, source + 1), target / source, order=0)
    known = expected > 0
    assert known[:-1].all()
    assert np.array_equal(nearest(source, target)[known] + 1, expected[known])


def test_one_voxel_is_the_nearest_of_all() -> None:
    assert nearest(1, 3).tolist() == [0, 0, 0]
    assert nearest(3, 1).tolist() == [0]


def test_each_slice_goes_through_at_the_size_of_the_window() -> None:
    volume = torch.rand(1, 5, 45, 26)
    shapes = []

    def predict(crops: Tensor) -> Tensor:
        shapes.append(tuple(crops.shape))
        return torch.cat([crops, 1 - crops], dim=1)

    found = predict_resized(predict, volume, (1, 32, 32), batch=2)
    assert shapes == [(2, 1, 32, 32), (2, 1, 32, 32), (1, 1, 32, 32)]
    assert found.shape == (2, 5, 45, 26)
    for plane, prediction in zip(volume[0].numpy(), found[0].numpy(), strict=True):
        there = zoom(plane, (32 / 45, 32 / 26), order=0)
        assert np.array_equal(prediction, zoom(there, (45 / 32, 26 / 32), order=0))


def test_a_window_of_several_slices_is_refused() -> None:
    with pytest.raises(UserError, match="resize_slices is for 2D projects"):
        predict_resized(lambda crops: crops, torch.rand(1, 8, 8, 8), (4, 8, 8), batch=1)
