import pytest
import torch

from tracoco.errors import UserError
from tracoco.methods.parts.cutmix import Mix, check_partners, draw_mix, draw_small_mix


def test_the_box_comes_from_the_partner_and_the_rest_stays() -> None:
    mask = torch.tensor([[False, True, True], [True, False, False]])
    mix = Mix(torch.tensor([1, 0]), mask)
    crops = torch.tensor([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]])
    assert mix(crops).tolist() == [[[1.0, 5.0, 6.0]], [[1.0, 5.0, 6.0]]]
    assert mix(crops[:, 0]).tolist() == [[1.0, 5.0, 6.0], [1.0, 5.0, 6.0]]


def test_mixing_reads_the_partner_as_it_was() -> None:
    # Reading from what is being written would give the second crop its own voxels back.
    mix = Mix(torch.tensor([1, 0]), torch.ones(2, 3, dtype=torch.bool))
    crops = torch.tensor([[[1.0] * 3], [[2.0] * 3]])
    assert mix(crops)[:, 0, 0].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("size", [(16, 12), (16, 12, 8)])
def test_no_crop_is_its_own_partner_and_every_box_is_a_true_box(
    count: int, size: tuple[int, ...]
) -> None:
    for seed in range(30):
        torch.manual_seed(seed)
        mix = draw_mix(count, size)
        assert sorted(mix.partner.tolist()) == list(range(count))
        assert (mix.partner != torch.arange(count)).all()
        for mask in mix.mask:
            places = mask.nonzero()
            low, high = places.amin(dim=0), places.amax(dim=0)
            sides = (high - low + 1).tolist()
            assert mask.sum() == torch.tensor(sides).prod()
            # A real box, not a slab through the crop.
            assert all(side < n for side, n in zip(sides, size, strict=True))


def test_boxes_hold_about_half_of_a_crop_and_differ_within_a_batch() -> None:
    torch.manual_seed(0)
    mixes = [draw_mix(2, (16, 16, 16)) for _ in range(200)]
    fractions = torch.stack([mix.mask.float().mean() for mix in mixes])
    assert fractions.mean().item() == pytest.approx(0.5, abs=0.05)
    assert any(not torch.equal(mix.mask[0], mix.mask[1]) for mix in mixes)


def test_one_unlabelled_crop_cannot_be_mixed() -> None:
    with pytest.raises(UserError, match=r"data\.unlabelled_batch to 2 or more, or method\.cutmix"):
        check_partners(1, None, 3)


@pytest.mark.parametrize("axes", [(), (3,), (0, 5)])
def test_axes_that_crops_do_not_have_cannot_be_mixed(axes: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"method\.cutmix_axes is .* the axes 0 to 2"):
        check_partners(2, axes, 3)
    check_partners(2, (0, 2), 3)


def test_a_box_goes_through_the_axes_that_are_not_cut() -> None:
    torch.manual_seed(0)
    fractions = []
    for _ in range(100):
        for mask in draw_mix(2, (16, 12, 8), axes=(0, 1)).mask:
            places = mask.nonzero()
            sides = (places.amax(dim=0) - places.amin(dim=0) + 1).tolist()
            assert sides[2] == 8
            assert sides[0] < 16
            assert sides[1] < 12
            fractions.append(mask.float().mean())
    # Half of the crop on average, whatever the number of axes.
    assert torch.stack(fractions).mean().item() == pytest.approx(0.5, abs=0.05)


def test_what_is_given_away_may_differ_from_what_is_kept() -> None:
    mix = Mix(torch.tensor([1, 0]), torch.tensor([[False, True], [False, True]]))
    own, given = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    assert mix(own, given).tolist() == [[1.0, 8.0], [3.0, 6.0]]


@pytest.mark.parametrize("size", [(40, 30), (20, 30, 40)])
def test_small_boxes_are_boxes_of_a_fiftieth_to_two_fifths_in_every_other_crop(
    size: tuple[int, ...],
) -> None:
    torch.manual_seed(0)
    masks = torch.cat([draw_small_mix(2, size).mask for _ in range(200)])
    fractions = masks.flatten(1).float().mean(dim=1)
    whole = fractions == 0
    assert whole.float().mean().item() == pytest.approx(0.5, abs=0.08)
    # Sides are rounded down to whole voxels.
    assert 0.01 < fractions[~whole].min() < 0.05
    assert 0.3 < fractions[~whole].max() <= 0.4
    assert fractions[~whole].mean().item() == pytest.approx(0.2, abs=0.03)
    stretches = []
    for mask in masks[~whole]:
        places = mask.nonzero()
        sides = places.amax(dim=0) - places.amin(dim=0) + 1
        assert mask.sum() == sides.prod()
        relative = sides / torch.tensor(size)
        stretches.append((relative[1] / relative[0]).item())
    assert 0.2 < min(stretches) < 0.5
    assert 2.5 < max(stretches) < 4.5


def test_the_third_side_of_a_small_box_is_that_of_a_cube() -> None:
    torch.manual_seed(0)
    for _ in range(50):
        for mask in draw_small_mix(2, (60, 60, 60)).mask:
            if mask.any():
                places = mask.nonzero()
                sides = (places.amax(dim=0) - places.amin(dim=0) + 1).tolist()
                # A voxel is lost where a side is rounded down.
                assert sides[2] ** 2 == pytest.approx(sides[0] * sides[1], rel=0.2)


def test_partners_of_small_boxes_are_others() -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        mix = draw_small_mix(3, (8, 8))
        assert (mix.partner != torch.arange(3)).all()
