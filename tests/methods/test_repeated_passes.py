import pytest
import torch
from torch import Tensor

from tracoco.methods.parts.student_teacher import mean_of_passes


def test_each_map_has_its_mean_and_no_gradient() -> None:
    values = iter([1.0, 3.0, 8.0])

    def one_pass(crops: Tensor) -> tuple[Tensor, Tensor]:
        value = next(values)
        return crops * value, crops[:, :1] * value**2

    crops = torch.ones(2, 3, 4, requires_grad=True)
    first, second = mean_of_passes(one_pass, crops, noise=0.0, passes=3)
    assert torch.equal(first, torch.full((2, 3, 4), 4.0))
    torch.testing.assert_close(second, torch.full((2, 1, 4), (1 + 9 + 64) / 3))
    assert not first.requires_grad


def test_every_pass_has_noise_of_its_own() -> None:
    seen: list[Tensor] = []

    def one_pass(crops: Tensor) -> tuple[Tensor]:
        seen.append(crops)
        return (crops,)

    torch.manual_seed(0)
    (mean,) = mean_of_passes(one_pass, torch.zeros(1, 1, 1000), noise=0.1, passes=8)
    assert len(seen) == 8
    assert torch.stack(seen).abs().max().item() == pytest.approx(0.2)
    # Independent noise: the mean of eight has a deviation smaller by the root of eight.
    assert mean.std().item() == pytest.approx(0.1 * 0.9594 / 8**0.5, rel=0.1)
