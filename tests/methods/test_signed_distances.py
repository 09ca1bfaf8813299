import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from tracoco.methods.parts.two_heads import (
    distance_loss,
    mask_distance,
    present_classes,
    signed_distances,
)
from tracoco.training.step_cost import PeakMemory

ROW = torch.tensor([[0, 0, 1, 1, 1, 0, 0]])


def everywhere(labels: Tensor) -> Tensor:
    return torch.ones_like(labels, dtype=torch.bool)


def distances(labels: Tensor, classes: int = 2) -> Tensor:
    """Of one crop without padding, [C - 1, ...]."""
    return signed_distances(labels[None], everywhere(labels)[None], classes)[0]


def test_a_square_of_three_in_a_crop_of_five() -> None:
    labels = torch.zeros(5, 5, dtype=torch.long)
    labels[1:4, 1:4] = 1
    corner, edge = 1.0, 1 / math.sqrt(2)
    expected = torch.tensor(
        [
            [corner, edge, edge, edge, corner],
            [edge, 0, 0, 0, edge],
            [edge, 0, -1, 0, edge],
            [edge, 0, 0, 0, edge],
            [corner, edge, edge, edge, corner],
        ]
    )
    torch.testing.assert_close(distances(labels)[0], expected)


def test_a_cube_has_its_centre_farthest_within_and_its_corners_farthest_without() -> None:
    labels = torch.zeros(5, 5, 5, dtype=torch.long)
    labels[1:4, 1:4, 1:4] = 1
    found = distances(labels)[0]
    assert found[2, 2, 2] == -1
    assert found[0, 0, 0] == 1
    assert found[0, 2, 2].item() == pytest.approx(1 / math.sqrt(3))
    assert found[1, 2, 2] == 0


def test_a_voxel_that_meets_the_background_at_a_corner_alone_is_not_on_the_surface() -> None:
    labels = torch.ones(4, 4, dtype=torch.long)
    labels[0, 0] = 0
    found = distances(labels)[0]
    assert found[0, 1] == found[1, 0] == 0
    assert found[1, 1].item() == pytest.approx(-math.sqrt(2) / math.sqrt(18))
    assert found[3, 3] == -1


def test_a_row_through_an_object() -> None:
    assert distances(ROW)[0, 0].tolist() == [1, 0.5, 0, -1, 0, 0.5, 1]


def test_an_empty_mask_is_0_and_a_full_one_minus_1() -> None:
    assert not distances(torch.zeros(3, 4, dtype=torch.long)).any()
    assert (distances(torch.ones(3, 4, dtype=torch.long)) == -1).all()


def test_each_class_and_each_crop_is_by_itself() -> None:
    labels = torch.stack([2 * ROW, 3 * ROW])
    found = signed_distances(labels, everywhere(labels), 4)
    assert found.shape == (2, 3, 1, 7)
    assert found.dtype == torch.float32
    assert torch.equal(found[0, 1], distances(ROW)[0])
    assert torch.equal(found[1, 2], distances(ROW)[0])
    for crop, absent in [(0, 0), (0, 2), (1, 0), (1, 1)]:
        assert not found[crop, absent].any()


def test_the_edge_of_the_crop_is_no_surface_and_neither_is_padding() -> None:
    cut = torch.tensor([[0, 1, 1, 1]])
    assert distances(cut)[0, 0].tolist() == pytest.approx([1, 0, -2 / 3, -1])
    padded = torch.tensor([[0, 1, 1, 1, 0, 0]])
    valid = torch.tensor([[True] * 4 + [False] * 2])
    found = signed_distances(padded[None], valid[None], 2)[0, 0, 0]
    assert found.tolist() == pytest.approx([1, 0, -2 / 3, -1, 0, 0])


def test_padding_does_not_set_the_scale() -> None:
    valid = torch.tensor([[True] * 5 + [False] * 2])
    found = signed_distances(ROW[None].roll(-2, dims=2), valid[None], 2)[0, 0, 0]
    # 1 1 1 0 0 and two voxels of padding, which would be three and four away.
    assert found.tolist() == pytest.approx([-1, -2 / 3, 0, 0.5, 1, 0, 0])


def test_a_full_crop_with_padding_is_full() -> None:
    valid = torch.tensor([[[True, True, False]]])
    found = signed_distances(torch.tensor([[[1, 1, 0]]]), valid, 2)
    assert found.flatten().tolist() == [-1, -1, 0]


def test_labels_of_padding_are_not_looked_at() -> None:
    valid = np.array([[True, True, True, False]])
    found = mask_distance(np.array([[False, False, False, True]]), valid)
    assert not found.any()


def test_what_does_not_count_is_left_out_of_the_mean() -> None:
    maps = torch.tensor([[[1.0, 3.0, 9.0]], [[0.0, 0.0, 0.0]]])
    counted = torch.tensor([[[True, True, False]], [[False, False, False]]])
    assert distance_loss(maps, torch.zeros_like(maps), counted).item() == 5.0


def test_what_counts_may_differ_between_classes() -> None:
    maps = torch.tensor([[[2.0, 4.0], [7.0, 7.0]]])
    by_class = torch.tensor([[[True], [False]]])
    everything = torch.ones(1, 1, 2, dtype=torch.bool)
    target = torch.zeros_like(maps)
    assert distance_loss(maps, target, by_class.expand(1, 2, 2)).item() == 10.0
    assert distance_loss(maps, target, everything).item() == (4 + 16 + 98) / 4


def test_present_classes_are_those_with_a_voxel_inside() -> None:
    labels = torch.tensor([[0, 1, 3], [0, 0, 2]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    assert present_classes(labels, valid, 4).tolist() == [
        [True, False, False],
        [False, True, False],
    ]


def test_distances_have_a_shape_where_there_are_no_values() -> None:
    memory = PeakMemory()
    with memory:
        labels = memory.make(partial(torch.zeros, 2, 6, 5, dtype=torch.long))
        found = signed_distances(labels, everywhere(labels), 3)
    assert found.shape == (2, 2, 6, 5)
    assert found.dtype == torch.float32
