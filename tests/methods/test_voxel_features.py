import pytest
import torch

from tracoco.methods.parts.voxel_features import (
    VoxelNorm,
    draw_voxels,
    surest_voxels,
    take_voxels,
    voxel_head,
)


def test_several_voxels_are_normalised_by_their_own_statistics() -> None:
    found = VoxelNorm(1)(torch.tensor([[1.0], [3.0]]))
    torch.testing.assert_close(found, torch.tensor([[-1.0], [1.0]]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [0, 1])
def test_one_voxel_or_none_leaves_the_statistics_alone_and_is_finite(count: int) -> None:
    norm = VoxelNorm(2)
    norm.running_mean = torch.tensor([1.0, 2.0])
    found = norm(torch.ones(count, 2))
    expected = torch.tensor([0.0, -1.0]).expand(count, 2)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(norm.running_mean, torch.tensor([1.0, 2.0]))


def test_without_voxels_a_head_is_still_connected() -> None:
    head = voxel_head(3, 4, 2)
    head(torch.ones(0, 3)).sum().backward()
    for parameter in head.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_voxels_are_drawn_within_the_mask_without_repetition() -> None:
    mask = torch.zeros(2, 3, 3, dtype=torch.bool)
    mask[0, 1] = True
    mask[1, 2, 2] = True
    torch.manual_seed(0)
    assert sorted(draw_voxels(mask, 10).tolist()) == [3, 4, 5, 17]
    assert len(set(draw_voxels(mask, 3).tolist())) == 3
    assert {int(draw_voxels(mask, 1)) for _ in range(50)} == {3, 4, 5, 17}


@pytest.mark.parametrize("size", [(3, 4), (3, 4, 2)])
def test_what_is_taken_is_what_the_maps_hold_there(size: tuple[int, ...]) -> None:
    maps = torch.rand(2, 5, *size)
    valid = torch.zeros(2, *size, dtype=torch.bool)
    valid[0, 2, 1] = valid[1, 0, 3] = True
    taken = take_voxels(maps, valid.flatten().nonzero().squeeze(1))
    expected = maps.movedim(1, -1)[valid]
    assert torch.equal(taken, expected)


def test_the_surest_voxels_of_the_mask_come_first() -> None:
    confidence = torch.tensor([[0.9, 0.5], [0.7, 0.8]])
    mask = torch.tensor([[False, True], [True, True]])
    assert surest_voxels(confidence, mask, 2).tolist() == [3, 2]
    assert surest_voxels(confidence, mask, 9).tolist() == [3, 2, 1]
    assert surest_voxels(confidence, ~mask & mask, 9).tolist() == []
