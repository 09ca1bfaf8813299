import pytest
import torch
from samples import make_method
from torch import Tensor

from tracoco.losses.consistency import kl_loss
from tracoco.methods.method import evaluating
from tracoco.methods.ps_mt import PSMT, worst_noise


def lengths(maps: Tensor) -> Tensor:
    found: Tensor = maps.flatten(1).norm(dim=1)
    return found


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_noise_is_of_length_one_in_each_crop_and_worse_than_chance(
    dimensions: int, classes: int
) -> None:
    method = make_method("ps-mt", dimensions, classes)
    assert isinstance(method, PSMT)
    decode = method.teachers.decode
    torch.manual_seed(0)
    crops = torch.rand(3, 1, *[16] * dimensions)
    valid = torch.ones(3, *[16] * dimensions, dtype=torch.bool)
    with evaluating(method):
        features = method.student.encode(crops)
        noise = worst_noise(decode, features, valid)
        random = torch.randn_like(noise)
        random = random / lengths(random).reshape(3, *[1] * (1 + dimensions))
        prediction = decode(features).softmax(dim=1)
        changed, by_chance = (
            kl_loss(decode([*features[:-1], features[-1] + 2 * each]), prediction, valid)
            for each in (noise, random)
        )
    torch.testing.assert_close(lengths(noise), torch.ones(3), atol=1e-3, rtol=0)
    assert changed > 2 * by_chance


def test_it_follows_the_gradient_of_a_decoder_that_can_be_followed_by_hand() -> None:
    """Logits (f, 0) of the first of two features: noise on the second one changes nothing."""
    features = [torch.zeros(1, 2, 1, 1)]
    valid = torch.ones(1, 1, 1, dtype=torch.bool)

    def decode(maps: list[Tensor]) -> Tensor:
        return torch.cat([maps[0][:, :1], torch.zeros(1, 1, 1, 1)], dim=1)

    noise = worst_noise(decode, features, valid)
    assert noise.abs().flatten().tolist() == pytest.approx([1.0, 0.0])


def test_no_gradient_is_left_behind_and_padding_has_no_say() -> None:
    method = make_method("ps-mt", 2)
    assert isinstance(method, PSMT)
    crops = torch.rand(2, 1, 16, 16)
    valid = torch.ones(2, 16, 16, dtype=torch.bool)
    valid[1] = False
    noise = worst_noise(method.teachers.decode, method.student.encode(crops), valid)
    assert not noise.requires_grad
    assert all(parameter.grad is None for parameter in method.parameters())
    assert lengths(noise).tolist() == pytest.approx([1.0, 0.0])


def test_half_precision_changes_the_direction_little() -> None:
    method = make_method("ps-mt", 2)
    assert isinstance(method, PSMT)
    crops, valid = torch.rand(2, 1, 16, 16), torch.ones(2, 16, 16, dtype=torch.bool)
    with evaluating(method):
        features = method.student.encode(crops)
        torch.manual_seed(0)
        full = worst_noise(method.teachers.decode, features, valid)
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = worst_noise(method.teachers.decode, features, valid)
    assert (full * half).flatten(1).sum(dim=1).min() > 0.99
