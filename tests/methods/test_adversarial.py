import pytest
import torch
from torch import Tensor, nn

from tracoco.methods.parts.adversarial import crop_lengths, random_directions, steepest, unit_length


@pytest.mark.parametrize("size", [(4, 6), (4, 6, 3)])
def test_random_directions_have_length_one_and_are_nothing_in_padding(
    size: tuple[int, ...],
) -> None:
    torch.manual_seed(0)
    valid = torch.ones(3, *size, dtype=torch.bool)
    valid[1, :2] = False
    valid[2] = False
    found = random_directions(torch.zeros(3, 2, *size), valid)
    torch.testing.assert_close(found.flatten(1).norm(dim=1), torch.tensor([1.0, 1.0, 0.0]))
    assert not found[1, :, :2].any()
    assert found.min() < 0 < found.max()


def test_lengths_go_by_the_values_inside() -> None:
    valid = torch.ones(2, 4, 4, dtype=torch.bool)
    valid[1, :3] = False
    # 2 channels of 16 and of 4 voxels.
    found = crop_lengths(valid, 2, 0.5)
    expected = torch.tensor([0.5 * 32**0.5, 0.5 * 8**0.5]).reshape(2, 1, 1, 1)
    torch.testing.assert_close(found, expected)


def test_the_root_mean_square_of_a_scaled_direction_is_the_amount() -> None:
    torch.manual_seed(0)
    valid = torch.ones(2, 5, 5, 5, dtype=torch.bool)
    change = crop_lengths(valid, 1, 0.3) * random_directions(torch.zeros(2, 1, 5, 5, 5), valid)
    torch.testing.assert_close(change.square().mean(dim=(1, 2, 3, 4)).sqrt(), torch.full((2,), 0.3))


def test_the_gradient_of_a_linear_distance_is_its_weights_and_weights_get_none() -> None:
    layer = nn.Linear(4, 1, bias=False)
    found = steepest(lambda change: layer(change).sum(), torch.rand(2, 4))
    torch.testing.assert_close(found, layer.weight.detach().expand(2, 4))
    assert layer.weight.grad is None
    assert not found.requires_grad
    valid = torch.ones(2, 4, dtype=torch.bool)
    directions = unit_length(found.unsqueeze(1), valid)
    expected = layer.weight.detach() / layer.weight.detach().norm()
    torch.testing.assert_close(directions[0], expected, rtol=1e-4, atol=1e-5)


def test_under_autocast_and_without_gradient_it_is_the_same() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 8)
    change = torch.rand(2, 64)

    def distance(moved: Tensor) -> Tensor:
        distance: Tensor = layer(moved).square().sum()
        return distance

    plain = steepest(distance, change)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(steepest(distance, change), plain)
