import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Index, Size
from tracoco.inference.sliding_window import predict_volume
from tracoco.inference.windows import (
    check_windows,
    stride_steps,
    strides,
    window_places,
    window_weight,
)


def voxelwise(crops: Tensor) -> Tensor:
    """A "network" that needs no surroundings: its answer is the same in every window."""
    return torch.cat([1 - crops, crops], dim=1)


@given(
    shape=st.tuples(*[st.integers(1, 20)] * 3),
    window=st.tuples(*[st.integers(2, 8)] * 3),
    overlap=st.sampled_from([0.0, 0.25, 0.5, 0.75]),
    weights=st.sampled_from(["gaussian", "uniform"]),
    batch=st.integers(1, 5),
)
def test_the_answer_of_a_voxelwise_network_is_exact_everywhere(
    shape: Size, window: Size, overlap: float, weights: str, batch: int
) -> None:
    volume = torch.rand(1, *shape, generator=torch.Generator().manual_seed(1))
    config = InferenceConfig(overlap=overlap, weights=weights, batch=batch)  # type: ignore[arg-type]  # drawn
    probability = predict_volume(voxelwise, volume, window, config)
    assert probability.shape == (2, *shape)
    torch.testing.assert_close(probability[1], volume[0])


def test_windows_reach_the_network_at_the_crop_size_and_in_batches() -> None:
    seen: list[tuple[int, ...]] = []

    def note(crops: Tensor) -> Tensor:
        seen.append(tuple(crops.shape))
        return voxelwise(crops)

    predict_volume(note, torch.rand(1, 12, 8, 5), (8, 8, 8), InferenceConfig(batch=2))
    assert seen == [(2, 1, 8, 8, 8)]


def test_padding_beyond_the_crop_lies_behind_the_scan() -> None:
    seen: list[Tensor] = []

    def note(crops: Tensor) -> Tensor:
        seen.append(crops[0, 0])
        return voxelwise(crops)

    volume = torch.ones(1, 2, 9, 8)
    # To the crop of 4 a voxel on both sides; from 9 to 12, and from 8 to 8, on the far side alone.
    predict_volume(note, volume, (4, 12, 8), InferenceConfig(), crop=(4, 8, 8))
    (window,) = seen
    assert window[:, 0, 0].tolist() == [0, 1, 1, 0]
    assert window[1, :, 0].tolist() == [1] * 9 + [0] * 3


def test_a_slice_thick_window_reaches_the_network_as_2d() -> None:
    def check(crops: Tensor) -> Tensor:
        assert crops.shape[1:] == (1, 8, 8)
        return voxelwise(crops)

    volume = torch.rand(1, 3, 12, 9)
    probability = predict_volume(check, volume, (1, 8, 8), InferenceConfig())
    torch.testing.assert_close(probability[1], volume[0])


def test_gaussian_weights_trust_the_middle_of_a_window() -> None:
    weight = window_weight((9, 9, 9), "gaussian")
    assert weight.argmax() == weight.size // 2
    # The middle of a face is 4 voxels from the centre, of a deviation of 2.25 voxels:
    # exp(-0.5 (4 / 2.25)^2) = 0.2059.
    assert weight[0, 4, 4].item() == pytest.approx(0.2059, abs=1e-4)
    assert weight[0, 0, 0].item() == pytest.approx(0.2059**3, abs=1e-4)
    assert (window_weight((4, 4), "uniform") == 1).all()
    calls = iter([0.0, 1.0])

    def other_each_time(crops: Tensor) -> Tensor:
        value = next(calls)
        return torch.cat([torch.full_like(crops, 1 - value), torch.full_like(crops, value)], dim=1)

    # Two windows, the first says 0, the second 1: voxels near a window's middle follow it.
    prediction = predict_volume(
        other_each_time, torch.zeros(1, 12, 8, 8), (8, 8, 8), InferenceConfig(batch=1)
    )[1, :, 4, 4]
    assert (np.diff(prediction.numpy()) >= 0).all()
    assert prediction[4] < 0.5 < prediction[7]


@pytest.mark.parametrize(
    ("overlap", "expected"), [(0.5, (4, 4, 2)), ((0.0, 0.5, 0.75), (8, 4, 1)), (0.9, (1, 1, 1))]
)
def test_strides_per_axis(overlap: float | tuple[float, ...], expected: Size) -> None:
    assert strides((8, 8, 4), overlap) == expected


def test_in_2d_slices_do_not_overlap() -> None:
    assert strides((1, 8, 8), (0.5, 0.25)) == (1, 4, 6)


@pytest.mark.parametrize("overlap", [1.0, -0.1, (0.5, 0.5, 0.5, 0.5), (0.5,)])
def test_an_impossible_overlap_is_refused(overlap: float | tuple[float, ...]) -> None:
    with pytest.raises(UserError, match=r"inference\.overlap"):
        strides((8, 8, 4), overlap)


def starts(shape: Size, window: Size, stride: Size) -> list[Index]:
    config = InferenceConfig(stride=stride)
    return [box.start for box in window_places(shape, window, config)]


def test_windows_lie_a_stride_apart_and_the_last_is_moved_back_to_the_end() -> None:
    # Along 12 voxels windows of 4 in strides of 3: 0, 3, 6, and 8 in place of 9.
    assert starts((12, 4, 4), (4, 4, 4), (3, 2, 2)) == [(x, 0, 0) for x in (0, 3, 6, 8)]
    # Where the last one fits exactly, there is none besides.
    assert starts((4, 10, 4), (4, 4, 4), (1, 3, 1)) == [(0, y, 0) for y in (0, 3, 6)]


def test_the_papers_strides_give_the_papers_number_of_windows() -> None:
    # A volume of the mean size of the left atria: 6 x 3 x 3 windows.
    places = starts((193, 142, 88), (112, 112, 80), (18, 18, 4))
    assert len(places) == 54
    assert places[-1] == (81, 30, 8)


@given(
    shape=st.tuples(*[st.integers(1, 20)] * 3),
    window=st.tuples(*[st.integers(2, 8)] * 3),
    fraction=st.floats(0.01, 1.0),
)
def test_every_voxel_has_an_answer_at_any_stride(
    shape: Size, window: Size, fraction: float
) -> None:
    volume = torch.rand(1, *shape, generator=torch.Generator().manual_seed(1))
    stride = tuple(max(1, round(fraction * n)) for n in window)
    probability = predict_volume(voxelwise, volume, window, InferenceConfig(stride=stride))
    torch.testing.assert_close(probability[1], volume[0])


def test_a_2d_project_gives_two_strides_or_three_with_a_leading_one() -> None:
    assert stride_steps((1, 8, 8), (4, 3)) == stride_steps((1, 8, 8), (1, 4, 3)) == (1, 4, 3)


@pytest.mark.parametrize(
    ("window", "stride"),
    [
        ((8, 8, 4), (8, 8, 5)),  # a gap between windows
        ((8, 8, 4), (4, 4)),  # two values in 3D
        ((1, 8, 8), (2, 4, 4)),  # every other slice
        ((1, 8, 8), (4,)),
        ((8, 8, 4), (4, 4, 4, 4)),
    ],
)
def test_an_impossible_stride_is_refused(window: Size, stride: Size) -> None:
    with pytest.raises(UserError, match=r"inference\.stride"):
        check_windows(window, InferenceConfig(stride=stride))


def test_a_stride_stands_in_place_of_an_overlap() -> None:
    check_windows((8, 8, 4), InferenceConfig(stride=(8, 1, 4), overlap=1.5))
    with pytest.raises(UserError, match=r"inference\.overlap"):
        check_windows((8, 8, 4), InferenceConfig(overlap=1.5))
