"""A scan predicted and resampled piece by piece is the scan predicted as a whole."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.geometry import Index
from tracoco.inference.resample import resampled
from tracoco.inference.scan_maps import ScanMaps, disagreement, wanted_maps
from tracoco.inference.sliding_window import (
    Predict,
    piece_axis,
    predict_pieces,
    predict_volume,
    window_places,
    window_weight,
)
from tracoco.inference.window_sums import WindowSums
from tracoco.project.plan import Plan
from tracoco.project.preprocess import raw_values, to_scan_grid

SHAPES = st.tuples(*[st.integers(1, 28)] * 3)


def plan(classes: int, slice_axis: int | None = None) -> Plan:
    return Plan.model_validate(
        {
            "dimensions": 3 if slice_axis is None else 2,
            "channels": 1,
            "label_values": tuple(10 * index for index in range(classes)),
            "class_names": tuple(f"class {index}" for index in range(classes)),
            "slice_axis": slice_axis,
            "spacing_mm": (1, 1, 1),
            "crop": (1, 8, 8),
        }
    )


def random_maps(classes: int, shape: Index, seed: int = 0) -> Tensor:
    values = torch.randn(classes, *shape, generator=torch.Generator().manual_seed(seed))
    return values.softmax(dim=0)


def plain_mean(predict: Predict, volume: Tensor, window: Index, config: InferenceConfig) -> Tensor:
    """All windows summed up over the whole volume at once."""
    weight = window_weight(window, config.weights)
    summed, total = torch.zeros(2, *volume.shape[1:]), torch.zeros(volume.shape[1:])
    for box in window_places(tuple(volume.shape[1:]), window, config):
        summed[:, *box.slices] += predict(volume[None, :, *box.slices])[0] * weight
        total[box.slices] += weight
    return summed / total


@settings(max_examples=40)
@given(
    window=st.tuples(*[st.integers(4, 12)] * 3),
    more=st.tuples(*[st.integers(0, 20)] * 3),
    batch=st.integers(1, 5),
)
def test_pieces_put_together_are_the_plain_weighted_mean(
    window: Index, more: Index, batch: int
) -> None:
    # The answer depends on the place in the window, so every overlap matters.
    place = torch.rand(2, *window, generator=torch.Generator().manual_seed(1))

    def predict(crops: Tensor) -> Tensor:
        return torch.cat([crops, 1 - crops], dim=1) * place

    shape = tuple(map(sum, zip(window, more, strict=True)))
    volume = torch.rand(1, *shape, generator=torch.Generator().manual_seed(2))
    config = InferenceConfig(batch=batch)
    pieces = list(predict_pieces(predict, volume, window, config))
    axis = piece_axis(shape, window)
    assert all(piece.shape[axis + 1] <= 16 for piece in pieces)
    found = torch.cat(pieces, dim=axis + 1)
    torch.testing.assert_close(found, plain_mean(predict, volume, window, config))
    assert torch.equal(found, predict_volume(predict, volume, window, config))


def test_a_row_of_two_windows_is_their_weighted_mean() -> None:
    # Windows of 4 at 0 and 2 along 6 rows, all weights alike: rows 2 and 3 have both answers.
    answers = iter([torch.full((1, 1, 4, 1, 1), 1.0), torch.full((1, 1, 4, 1, 1), 3.0)])
    config = InferenceConfig(weights="uniform", batch=1)
    found = predict_volume(lambda _: next(answers), torch.zeros(1, 6, 1, 1), (4, 1, 1), config)
    assert found.ravel().tolist() == [1, 1, 2, 2, 3, 3]


def test_sums_are_kept_of_no_more_rows_than_a_window_has() -> None:
    sums = WindowSums(torch.ones(4, 3, 5), torch.zeros(1, 6, 5, 100), axis=2)
    assert sums.total.shape == (6, 5, 5)
    assert piece_axis((512, 512, 900), (96, 96, 96)) == 2
    assert piece_axis((30, 512, 512), (1, 96, 96)) == 0


@settings(max_examples=60)
@given(source=SHAPES, target=SHAPES, rows=st.integers(1, 40), axis=st.integers(0, 2))
def test_pieces_are_resampled_as_the_whole_is(
    source: Index, target: Index, rows: int, axis: int
) -> None:
    maps = random_maps(3, source)
    found = torch.full((3, *target), math.nan)
    for place, channels in resampled(maps.split(rows, dim=axis + 1), axis, source, target):
        count = place.stop - place.start
        for index, channel in enumerate(channels):
            found[index].narrow(axis, place.start, count).copy_(channel)
    expected = F.interpolate(maps[None], size=target, mode="trilinear", align_corners=False)[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    if source == target:
        assert torch.equal(found, maps)


@pytest.mark.parametrize("slice_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("classes", [2, 4])
def test_labels_are_those_of_the_whole(classes: int, slice_axis: int | None) -> None:
    shape, stored = (20, 26, 23), (13, 17, 40)
    chosen = plan(classes, slice_axis)
    maps = random_maps(classes, stored)
    target = [shape[axis] for axis in chosen.stored_axes]
    for axis in range(3):
        found = ScanMaps(shape, chosen)
        for rows, channels in resampled(maps.split(5, dim=axis + 1), axis, stored, target):
            found.fill(axis, rows, channels)
        expected = raw_values(to_scan_grid(maps, shape, chosen), chosen)
        assert found.label.dtype == expected.dtype
        # Where two classes are as good as equal, rounding may decide; nowhere here.
        assert np.array_equal(found.label, expected)


def filled(values: list[list[float]], wanted: list[str], classes: int) -> ScanMaps:
    """Maps of a scan of a few voxels in a row, given by channel."""
    shape = (len(values[0]), 1, 1)
    found = ScanMaps(shape, plan(classes), wanted)
    channels = (torch.tensor(row).reshape(shape) for row in values)
    found.fill(0, slice(0, shape[0]), channels)
    return found


def test_maps_by_hand() -> None:
    half, third = 0.5, 1 / 3
    rows = [[1.0, half, third], [0.0, half, third], [0.0, 0.0, third], [0.0, 1.0, 0.25]]
    found = filled(rows, ["probability", "disagreement", "entropy"], classes=3)
    assert found.label.ravel().tolist() == [0, 0, 0]  # a tie goes to the first class
    step = 1 / 510
    np.testing.assert_allclose(found.maps["probability"].values[..., 0, 0], rows[:3], atol=step)
    np.testing.assert_allclose(
        found.maps["entropy"].values.ravel(), [0, math.log(2), math.log(3)], atol=math.log(3) * step
    )
    np.testing.assert_allclose(found.maps["disagreement"].values.ravel(), [0, 1, 0.25], atol=step)
    assert found.maps["entropy"].levels.max() == 255


def test_the_label_alone_asks_for_nothing_else() -> None:
    found = filled([[0.2, 0.7], [0.8, 0.3]], [], classes=2)
    assert found.label.ravel().tolist() == [10, 0]
    assert found.maps == {}


def test_disagreement_is_half_of_what_differs() -> None:
    first = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]])
    second = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.1, 0.3, 0.2, 0.4]])
    found = disagreement(first[..., None, None], second[..., None, None])
    assert found.shape == (3, 1, 1, 1)
    torch.testing.assert_close(found.ravel(), torch.tensor([1.0, 0.0, 0.3]))


def test_maps_are_asked_for_by_name() -> None:
    assert wanted_maps("label") == ()
    assert wanted_maps("entropy, label,probability") == ("probability", "entropy")
    with pytest.raises(Exception, match="'probabilities' is unknown; choose from label, prob"):
        wanted_maps("label,probabilities")
