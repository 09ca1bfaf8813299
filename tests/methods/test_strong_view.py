import math

import pytest
import torch
from torch import Tensor

from tracoco.data.augment import UNIT
from tracoco.methods.parts import strong_view as module
from tracoco.methods.parts.strong_view import blur, brighten, change_contrast, strong_view

SIZES = [(6, 5), (6, 5, 4)]


def everywhere(crops: Tensor) -> Tensor:
    return torch.ones_like(crops[:, 0], dtype=torch.bool)


def test_brightness_is_a_factor_that_stays_in_the_range() -> None:
    crops = torch.tensor([[[[0.0, 0.4, 0.8]]]])
    assert brighten(crops, 1.5, UNIT).flatten().tolist() == pytest.approx([0.0, 0.6, 1.0])
    assert brighten(crops, 1.5, (0.0, 2.0)).flatten().tolist() == pytest.approx([0.0, 0.6, 1.2])


def test_dark_z_scores_are_not_cut_off_at_zero() -> None:
    crops = torch.tensor([[[[-2.0, 1.0, 4.0]]]])
    # 1.5 times -2, 1 and 4, of which 6 is beyond the limit; contrast turns about the mean of 1.
    assert brighten(crops, 1.5, (-5.0, 5.0)).flatten().tolist() == [-3.0, 1.5, 5.0]
    changed = change_contrast(crops, everywhere(crops), 1.5, (-5.0, 5.0))
    assert changed.flatten().tolist() == [-3.5, 1.0, 5.0]


def test_contrast_turns_about_the_mean_of_each_crop_and_channel() -> None:
    # Means 0.4 and 0.2: distances -0.2, 0.2 and -0.1, 0.1, halved.
    crops = torch.tensor([[[[0.2, 0.6]], [[0.1, 0.3]]]])
    changed = change_contrast(crops, everywhere(crops), 0.5, UNIT)
    assert changed.flatten().tolist() == pytest.approx([0.3, 0.5, 0.15, 0.25])


def test_contrast_stays_in_the_range() -> None:
    crops = torch.tensor([[[[0.0, 1.0]]]])
    assert change_contrast(crops, everywhere(crops), 1.5, UNIT).flatten().tolist() == [0.0, 1.0]


def test_the_mean_of_the_contrast_is_that_of_voxels_inside() -> None:
    crops = torch.tensor([[[[0.2, 0.6, 0.0]]]])
    valid = torch.tensor([[[True, True, False]]])
    changed = change_contrast(crops, valid, 0.5, UNIT)
    assert changed.flatten().tolist()[:2] == pytest.approx([0.3, 0.5])


@pytest.mark.parametrize("size", SIZES)
def test_a_blurred_point_is_a_gaussian_along_every_axis(size: tuple[int, ...]) -> None:
    crops = torch.zeros(1, 1, *(9 for _ in size))
    crops[0, 0, *(4 for _ in size)] = 1.0
    blurred = blur(crops, 1.0)[0, 0]
    heights = [math.exp(-0.5 * offset**2) for offset in range(-3, 4)]
    middle = [4] * len(size)
    peak = (1 / sum(heights)) ** len(size)
    assert blurred[*middle].item() == pytest.approx(peak)
    for axis in range(len(size)):
        place = middle.copy()
        place[axis] = 2
        assert blurred[*place].item() == pytest.approx(peak * math.exp(-2))
    assert blurred.sum().item() == pytest.approx(1.0)


def test_beyond_the_border_a_blur_sees_the_border() -> None:
    crops = torch.full((2, 1, 5, 5), 0.7)
    torch.testing.assert_close(blur(crops, 2.0), crops)


def test_a_blur_of_next_to_nothing_changes_nothing() -> None:
    crops = torch.rand(1, 1, 5, 5)
    torch.testing.assert_close(blur(crops, 0.1), crops)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("top", [1.0, 255.0])
def test_a_view_keeps_shape_and_range_and_leaves_the_crops_alone(
    size: tuple[int, ...], top: float
) -> None:
    crops = top * torch.rand(8, 2, *size)
    before = crops.clone()
    torch.manual_seed(0)
    view = strong_view(crops, everywhere(crops), (0.0, top))
    assert view.shape == crops.shape
    assert view.min() >= 0
    assert view.max() <= top
    assert view.max() > 0.5 * top
    assert torch.equal(crops, before)


def test_each_crop_has_its_own_draw_and_some_stay_as_they_are() -> None:
    torch.manual_seed(0)
    crop = torch.rand(1, 1, 4, 4)
    views = strong_view(crop.expand(400, -1, -1, -1), torch.ones(400, 4, 4).bool(), UNIT)
    unchanged = (views == crop).flatten(1).all(dim=1).float().mean().item()
    assert unchanged == pytest.approx(0.2 * 0.5, abs=0.04)
    means = views.flatten(1).mean(dim=1)
    # Brightness alone changes the mean, but for what leaves the range.
    assert means.min() < 0.6 * crop.mean()
    assert means.max() > 1.2 * crop.mean()


def test_padding_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JITTERED", 1.0)
    monkeypatch.setattr(module, "BLURRED", 1.0)
    torch.manual_seed(0)
    crops = torch.rand(4, 1, 6, 6)
    crops[..., 4:] = 0.0
    valid = everywhere(crops)
    valid[..., 4:] = False
    view = strong_view(crops, valid, UNIT)
    assert not view[..., 4:].any()
    assert (view[..., :4] != crops[..., :4]).all()


def test_the_same_seed_gives_the_same_view_and_autocast_does_not_round_it() -> None:
    crops = torch.rand(6, 1, 5, 5)
    views = []
    for enabled in (False, True):
        torch.manual_seed(3)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            views.append(strong_view(crops, everywhere(crops), UNIT))
    assert torch.equal(*views)
