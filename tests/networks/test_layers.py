import pytest
import torch

from tracoco.networks.network import add, concatenate, interpolate, level_widths


def test_widths_double() -> None:
    assert level_widths(16, 5) == (16, 32, 64, 128, 256)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_nearest_repeats_each_value(dimensions: int) -> None:
    row = torch.tensor([1.0, 2.0]).reshape(1, 1, *[1] * (dimensions - 1), 2)
    risen = interpolate("nearest", dimensions)(row)
    assert risen.shape[2:] == (*[2] * (dimensions - 1), 4)
    assert risen.flatten()[:4].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_linear_goes_a_quarter_of_the_way(dimensions: int) -> None:
    # Centres of the doubled voxels lie a quarter of a voxel beside the old ones.
    row = torch.tensor([0.0, 1.0]).reshape(1, 1, *[1] * (dimensions - 1), 2)
    risen = interpolate("linear", dimensions)(row)
    assert risen.flatten()[:4].tolist() == [0, 0.25, 0.75, 1]


def test_concatenate_puts_the_skip_first() -> None:
    merged = concatenate(torch.zeros(1, 1, 2, 2), torch.ones(1, 2, 2, 2))
    assert merged[0, :, 0, 0].tolist() == [0, 1, 1]


def test_add_spares_what_a_gradient_needs_and_the_skip_always() -> None:
    skip, risen = torch.ones(1, 1, 2, 2), torch.full((1, 1, 2, 2), 2.0)
    assert add(skip, risen).eq(3).all()
    assert risen.eq(2).all()
    with torch.no_grad():
        assert add(skip, risen) is risen
    assert risen.eq(3).all()
    assert skip.eq(1).all()
