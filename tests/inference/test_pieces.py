"""A scan predicted and resampled piece by piece is the scan predicted as a whole."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.geometry import Box, Size, piece_axis
from tracoco.inference.maps import ScanMaps, disagreement
from tracoco.inference.prediction import wanted_maps
from tracoco.inference.predictor import resampled
from tracoco.inference.sliding_window import Predict, WindowSums, predict_pieces, predict_volume
from tracoco.inference.windows import window_places, window_weight
from tracoco.project.plan import Plan
from tracoco.project.preprocess import label_to_network_grid, raw_values
from tracoco.scans.scan import Shape

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


def random_maps(classes: int, shape: Size, seed: int = 0) -> Tensor:
    values = torch.randn(classes, *shape, generator=torch.Generator().manual_seed(seed))
    return values.softmax(dim=0)


def plain_mean(predict: Predict, volume: Tensor, window: Size, config: InferenceConfig) -> Tensor:
    """All windows summed up over the whole volume at once."""
    weight = torch.from_numpy(window_weight(window, config.weights))
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
    window: Size, more: Size, batch: int
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
    predictions = iter([torch.full((1, 1, 4, 1, 1), 1.0), torch.full((1, 1, 4, 1, 1), 3.0)])
    config = InferenceConfig(weights="uniform", batch=1)
    found = predict_volume(lambda _: next(predictions), torch.zeros(1, 6, 1, 1), (4, 1, 1), config)
    assert found.ravel().tolist() == [1, 1, 2, 2, 3, 3]


def test_sums_are_kept_of_no_more_rows_than_a_window_has() -> None:
    sums = WindowSums(torch.ones(4, 3, 5), torch.zeros(1, 6, 5, 100), axis=2)
    assert sums.total.shape == (6, 5, 5)
    assert piece_axis((512, 512, 900), (96, 96, 96)) == 2
    assert piece_axis((30, 512, 512), (1, 96, 96)) == 0


@settings(max_examples=60)
@given(source=SHAPES, target=SHAPES, rows=st.integers(1, 40), axis=st.integers(0, 2))
def test_pieces_are_resampled_as_the_whole_is(
    source: Size, target: Size, rows: int, axis: int
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
    whole = F.interpolate(maps[None], size=target, mode="trilinear", align_corners=False)[0]
    classes_there = whole.argmax(dim=0).numpy().transpose(np.argsort(chosen.stored_axes))
    expected = raw_values(classes_there, chosen)
    for axis in range(3):
        found = on_scan(maps, shape, chosen, axis)
        assert found.label.dtype == expected.dtype
        # Where two classes are as good as equal, rounding may decide; nowhere here.
        assert np.array_equal(found.label, expected)


def on_scan(
    maps: Tensor, shape: Shape, chosen: Plan, axis: int = 0, wanted: Sequence[str] = ()
) -> ScanMaps:
    """What maps on the network's grid say of a whole scan."""
    target = [shape[stored] for stored in chosen.stored_axes]
    found = ScanMaps(shape, chosen, wanted)
    for rows, channels in resampled(maps.split(5, dim=axis + 1), axis, maps.shape[1:], target):
        found.fill(axis, rows, channels)
    return found


@pytest.mark.parametrize("slice_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("spacing_mm", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_labels_come_back_from_the_networks_grid(
    slice_axis: int | None, spacing_mm: float, axis: int
) -> None:
    # Layers of two equal voxels, so that voxels of 2 mm lose nothing.
    values = np.resize(np.array([1, 1, 0, 0, 2, 2], dtype=np.uint8), (4, 6, 8)[axis])
    others = [other for other in range(3) if other != axis]
    label = np.broadcast_to(np.expand_dims(values, others), (4, 6, 8)).copy()
    chosen = plan(3, slice_axis).model_copy(update={"spacing_mm": (spacing_mm,) * 3})
    stored = torch.from_numpy(label_to_network_grid(label, (1, 1, 1), chosen))
    assert tuple(stored.shape) == chosen.stored_shape((4, 6, 8), (1, 1, 1))
    maps = F.one_hot(stored.long(), 3).movedim(-1, 0).float()
    found = on_scan(maps, (4, 6, 8), chosen, axis)
    assert np.array_equal(found.label, raw_values(label, chosen))


def test_probabilities_are_resampled_before_the_class_is_chosen() -> None:
    # From 2 voxels to 4: class 1 has 0.9, 0.75 * 0.9 + 0.25 * 0.3 = 0.75, 0.45 and 0.3.
    one = torch.tensor([0.9, 0.3]).reshape(1, 2, 1, 1)
    found = on_scan(torch.cat([1 - one, one]), (4, 1, 1), plan(2))
    assert found.label.ravel().tolist() == raw_values(np.array([1, 1, 0, 0]), plan(2)).tolist()


@pytest.mark.parametrize("slice_axis", [None, 0, 1, 2])
def test_around_the_box_is_background_beyond_doubt(slice_axis: int | None) -> None:
    chosen, box = plan(2, slice_axis), Box((1, 0, 2), (2, 3, 4))
    found = ScanMaps((5, 3, 7), chosen, ["probability", "disagreement", "entropy"], box)
    size = [box.size[axis] for axis in chosen.stored_axes]
    # Even odds, the second class a little ahead; two networks that agree on nothing.
    values = (torch.full(size, value) for value in (0.49, 0.51, 1.0))
    found.fill(0, slice(0, size[0]), values)
    valid = np.zeros((5, 3, 7), dtype=bool)
    valid[1:3, :, 2:6] = True
    assert np.array_equal(found.label != 0, valid)
    probability = found.maps["probability"].values
    assert (probability[0][~valid] == 1).all()
    assert (probability[1][~valid] == 0).all()
    np.testing.assert_allclose(probability[1][valid], 0.51, atol=1 / 510)
    for name in ("disagreement", "entropy"):
        assert np.array_equal(found.maps[name].levels != 0, valid)


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
