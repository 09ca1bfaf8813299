"""Crop pairs of tensors, and batches of them, for other people's training loops."""

import math

import numpy as np
import pytest
import torch

import tracoco as tc

SHAPES = [((20, 17), (8, 6)), ((20, 17, 13), (8, 6, 5))]


@pytest.mark.parametrize(("shape", "size"), SHAPES)
@pytest.mark.parametrize("seed", range(20))
def test_the_overlap_names_the_same_voxels_in_both_crops(
    shape: tuple[int, ...], size: tuple[int, ...], seed: int
) -> None:
    volume = torch.arange(2 * math.prod(shape)).reshape(2, *shape)  # each value is one voxel
    first, second, (here, there) = tc.crop_pair(volume, size, torch.Generator().manual_seed(seed))
    assert first.shape == second.shape == (2, *size)
    common = first[:, *here.slices]
    assert torch.equal(common, second[:, *there.slices])
    assert set(common.flatten().tolist()) == set(first.flatten().tolist()) & set(
        second.flatten().tolist()
    )
    shift = np.subtract(here.start, there.start)
    assert np.abs(shift).max() > 0
    assert (np.abs(shift) <= np.array(size) // 2).all()


def test_places_reach_every_edge_and_shifts_go_both_ways() -> None:
    volume, generator = torch.arange(12).repeat(9, 1)[None], torch.Generator().manual_seed(0)
    pairs = [tc.crop_pair(volume, (4, 4), generator) for _ in range(300)]
    assert {int(first[0, 0, 0]) for first, _, _ in pairs} == set(range(9))
    shifts = {here.start[1] - there.start[1] for _, _, (here, there) in pairs}
    assert shifts == {-2, -1, 0, 1, 2}


def test_the_generator_decides_and_torchs_own_stands_in() -> None:
    volume = torch.rand(1, 30, 30)

    def drawn(seed: int) -> torch.Tensor:
        return tc.crop_pair(volume, (8, 8), torch.Generator().manual_seed(seed))[1]

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    torch.manual_seed(1)
    assert torch.equal(tc.crop_pair(volume, (8, 8))[1], drawn(1))


def test_crops_are_copies() -> None:
    volume = torch.zeros(1, 9, 9)
    first, second, _ = tc.crop_pair(volume, (4, 4))
    first += 1
    assert volume.sum() == second.sum() == 0


def test_a_volume_as_large_as_the_crop_leaves_no_room() -> None:
    volume = torch.rand(1, 6, 5)
    first, second, (here, there) = tc.crop_pair(volume, (6, 5))
    assert torch.equal(first, second)
    assert here == there
    assert (here.start, here.size) == ((0, 0), (6, 5))


@pytest.mark.parametrize("size", [(9, 4), (4, 9), (4, 0), (4,), (4, 4, 4)])
def test_a_size_that_does_not_fit_is_refused(size: tuple[int, ...]) -> None:
    with pytest.raises(tc.UserError, match=r"does not fit into a volume of \[8, 8\]"):
        tc.crop_pair(torch.zeros(1, 8, 8), size)


@pytest.mark.parametrize("axes", [2, 5])
def test_what_is_no_volume_with_channels_is_refused(axes: int) -> None:
    with pytest.raises(tc.UserError, match=f"this one has {axes} axes"):
        tc.crop_pair(torch.zeros([8] * axes), (4,) * (axes - 1))


@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_a_batch_of_pairs_knows_labels_and_overlaps(
    shape: tuple[int, ...], size: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    pairs = [tc.crop_pair(torch.rand(1, *shape), size, generator) for _ in range(3)]
    batch = tc.Batch.from_pairs(pairs, torch.ones(1, *size, dtype=torch.uint8), ["a", "b", "c"])
    assert batch.first.values.shape == batch.second.values.shape == (3, 1, *size)
    assert batch.first.valid.all()
    assert (batch.labelled_count, batch.labels.dtype) == (1, torch.int64)
    assert batch.cases == ("a", "b", "c")
    assert batch.overlaps == [overlap for _, _, overlap in pairs]
    assert torch.equal(batch.second.values[2], pairs[2][1])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_method_is_a_module_for_any_loop(dimensions: int) -> None:
    convolution = torch.nn.Conv2d if dimensions == 2 else torch.nn.Conv3d
    method = tc.build_method(
        "tracoco",
        lambda: convolution(1, 4, 3, padding=1),
        classes=4,
        steps=10,
        dimensions=dimensions,
        settings={"gamma": 0.5},
    )
    pairs = [tc.crop_pair(torch.rand(1, *[16] * dimensions), [8] * dimensions) for _ in range(4)]
    batch = tc.Batch.from_pairs(pairs, torch.randint(4, (2, *[8] * dimensions)))
    output = method(batch, 9)
    assert set(output.terms) == {"supervised", "crc", "translation", "entropy"}
    sum(output.terms.values()).backward()
    for name, weight in method.networks.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name
    method.after_step(output, batch, 9)
    probability = method.predict(batch.first.values)
    assert probability.shape == (4, 4, *[8] * dimensions)
    torch.testing.assert_close(probability.sum(dim=1), torch.ones(4, *[8] * dimensions))


def test_a_wrong_name_or_setting_of_a_method_is_told() -> None:
    def network() -> torch.nn.Module:
        return torch.nn.Conv2d(1, 2, 1)

    with pytest.raises(tc.UserError, match="method 'trcoco' does not exist; did you mean"):
        tc.build_method("trcoco", network, classes=2, steps=10)
    with pytest.raises(tc.UserError, match="'gama' is not a setting; did you mean 'gamma'"):
        tc.build_method("tracoco", network, classes=2, steps=10, settings={"gama": 0.5})
