import pytest
import torch

from tracoco.errors import UserError
from tracoco.methods.mixing import Mix, check_partners, draw_mix

CPU = torch.device("cpu")


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
        mix = draw_mix(count, size, CPU)
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
    mixes = [draw_mix(2, (16, 16, 16), CPU) for _ in range(200)]
    shares = torch.stack([mix.mask.float().mean() for mix in mixes])
    assert shares.mean().item() == pytest.approx(0.5, abs=0.05)
    assert any(not torch.equal(mix.mask[0], mix.mask[1]) for mix in mixes)


def test_one_unlabelled_crop_cannot_be_mixed() -> None:
    with pytest.raises(UserError, match=r"data\.unlabelled_batch to 2 or more, or method\.cutmix"):
        check_partners(1)
