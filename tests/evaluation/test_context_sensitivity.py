"""Whether the measure sees context where there is some, and none where there is none."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tracoco.evaluation.context_sensitivity import (
    ContextScore,
    compare,
    context_sensitivity,
    draw_pair,
    summarise_context,
)

Volume = NDArray[np.float32]


def volume(*shape: int, seed: int = 0) -> Volume:
    return np.random.default_rng(seed).random((1, *shape), dtype=np.float32)


def pointwise(classes: int, dimensions: int) -> nn.Module:
    """A network that sees one voxel at a time."""
    torch.manual_seed(0)
    convolution = (nn.Conv2d, nn.Conv3d)[dimensions - 2](1, classes, kernel_size=1)
    nn.init.normal_(convolution.weight, std=9)
    return nn.Sequential(convolution, nn.Softmax(dim=1))


def ramp(crops: Tensor) -> Tensor:
    """Foreground in the half of a crop that comes last along its last axis, whatever is there."""
    length = crops.shape[-1]
    foreground = (torch.arange(length) / (length - 1)).expand_as(crops)
    return torch.cat([1 - foreground, foreground], dim=1)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("crop", "dimensions"), [((8, 8, 6), 3), ((1, 8, 8), 2)])
def test_a_network_that_sees_no_context_scores_exactly_zero(
    classes: int, crop: tuple[int, ...], dimensions: int
) -> None:
    network = pointwise(classes, dimensions)
    (score,) = context_sensitivity(network, {"scan": volume(14, 13, 10)}, crop, shifts=6)
    assert (score.pairs, score.empty_pairs) == (6, 0)
    assert (score.disagreement, score.differing) == (0, 0)
    assert score.divergence == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("crop", [(8, 8, 8), (1, 8, 8)])
def test_an_answer_that_moves_with_the_crop_scores_high(crop: tuple[int, ...]) -> None:
    (score,) = context_sensitivity(ramp, {"scan": volume(16, 16, 16)}, crop, shifts=20)
    assert score.disagreement is not None
    assert score.disagreement > 20
    assert score.differing is not None
    assert score.differing > 20
    assert score.divergence is not None
    assert score.divergence > 0.1


def test_three_voxels_by_hand() -> None:
    # Crops of two voxels out of three share the middle one. It is the last voxel of the one crop
    # and the first of the other, and only first voxels are called foreground, with 3/4.
    def first_voxel(crops: Tensor) -> Tensor:
        foreground = torch.tensor([0.75, 0.25]).reshape(1, 1, 2, 1, 1).expand_as(crops)
        return torch.cat([1 - foreground, foreground], dim=1)

    (score,) = context_sensitivity(first_voxel, {"scan": volume(3, 1, 1)}, (2, 1, 1), shifts=4)
    assert (score.pairs, score.empty_pairs) == (4, 0)
    assert (score.disagreement, score.differing) == (100, 100)
    # 3/4 log(3/4 : 1/4) + 1/4 log(1/4 : 3/4), either way round.
    assert score.divergence == pytest.approx(0.5 * math.log(3))


def test_two_answers_by_hand() -> None:
    # Labels 1, 1, 2, 0 and 1, 2, 2, 0: Dice of class 1 is 2/3, of class 2 also; class 3 is in
    # neither and does not count.
    first, second = np.zeros((4, 4)), np.zeros((4, 4))
    first[[1, 1, 2, 0], range(4)] = 1
    second[[1, 2, 2, 0], range(4)] = 1
    score = compare(first, second)
    assert score.disagreement == pytest.approx(100 / 3)
    assert score.differing == 25
    # One voxel of four is certain of another class: log(1 / 1e-7) there.
    assert score.divergence == pytest.approx(math.log(1e7) / 4)


def test_the_divergence_has_a_direction() -> None:
    even, sure = np.array([[0.5], [0.5]]), np.array([[0.9], [0.1]])
    assert compare(even, sure).divergence == pytest.approx(0.5 * math.log(0.25 / 0.09))
    assert compare(sure, even).divergence == pytest.approx(
        0.9 * math.log(1.8) + 0.1 * math.log(0.2)
    )


def test_padding_does_not_count() -> None:
    # The scan is 4 voxels in crops of 8: two voxels of padding on either side, and only there
    # does the answer move with the crop.
    def ramp_in_padding(crops: Tensor) -> Tensor:
        prediction = ramp(crops)
        prediction[:, :, 2:6] = torch.tensor([0.25, 0.75]).reshape(1, 2, 1, 1, 1)
        return prediction

    scans = {"scan": volume(4, 8, 16)}
    (score,) = context_sensitivity(ramp_in_padding, scans, (8, 8, 8), shifts=5)
    assert (score.disagreement, score.differing, score.divergence) == (0, 0, 0)


@pytest.mark.parametrize(("shape", "crop"), [((8, 6, 8), (8, 8, 8)), ((9, 8, 8), (1, 8, 8))])
def test_a_scan_without_room_has_no_figures(shape: tuple[int, ...], crop: tuple[int, ...]) -> None:
    scores = context_sensitivity(ramp, {"scan": volume(*shape)}, crop, shifts=5)
    assert scores == [ContextScore("scan", pairs=0, empty_pairs=0)]


def test_pairs_without_foreground_are_counted_and_have_no_disagreement() -> None:
    def nothing(crops: Tensor) -> Tensor:
        return torch.cat([torch.ones_like(crops), torch.zeros_like(crops)], dim=1)

    (score,) = context_sensitivity(nothing, {"scan": volume(9, 9, 9)}, (6, 6, 6), shifts=3)
    assert (score.pairs, score.empty_pairs, score.disagreement) == (3, 3, None)
    assert (score.divergence, score.differing) == (0, 0)


def test_figures_depend_on_name_and_seed_and_not_on_the_other_scans() -> None:
    scans = {name: volume(16, 16, 16) for name in ("a", "b")}
    turned = {name: scans[name] for name in ("b", "a")}
    forward = context_sensitivity(ramp, scans, (8, 8, 8), shifts=3)
    assert forward == context_sensitivity(ramp, turned, (8, 8, 8), shifts=3)[::-1]
    assert forward[0].differing != forward[1].differing
    assert forward != context_sensitivity(ramp, scans, (8, 8, 8), shifts=3, seed=1)


def test_a_pair_is_two_places_that_share_at_least_half_along_each_axis() -> None:
    for index in range(50):
        first, second = draw_pair("scan", (20, 16, 9), (8, 8, 8), seed=0, index=index)
        assert first.start != second.start
        assert min(first.intersect(second).size) >= 4
        for box in (first, second):
            assert min(box.start) >= 0
            assert all(stop <= n for stop, n in zip(box.stop, (20, 16, 9), strict=True))


def test_the_summary_leaves_out_what_has_no_figure() -> None:
    scores = [
        ContextScore("a", 10, 2, disagreement=10, divergence=0.1, differing=1),
        ContextScore("b", 10, 10, disagreement=None, divergence=0.3, differing=3),
        ContextScore("c", 0, 0),
    ]
    summary = summarise_context(scores)
    assert (summary.scans, summary.scans_without_room) == (3, 1)
    assert (summary.pairs, summary.empty_pairs) == (20, 12)
    assert (summary.disagreement, summary.disagreement_sd) == (10, None)
    assert summary.divergence == pytest.approx(0.2)
    assert summary.differing == 2
    assert summary.differing_sd == pytest.approx(math.sqrt(2))
