import pytest
import torch
from torch import Tensor

from tracoco.methods.parts.class_patches import Labelled, PatchChooser, grid, patch_size


def labelled(label: Tensor, entropy: Tensor | None = None, valid: Tensor | None = None) -> Labelled:
    """Crops that hold 5 everywhere."""
    crops = torch.full((len(label), 1, *label.shape[1:]), 5.0)
    entropy = torch.zeros(label.shape) if entropy is None else entropy
    valid = torch.ones_like(label, dtype=torch.bool) if valid is None else valid
    return Labelled(crops, label, valid, entropy)


def test_a_grid_of_an_image() -> None:
    image = torch.arange(2 * 20.0).reshape(2, 1, 4, 5)
    patches = grid(image, (2, 2))
    assert patches.shape == (8, 1, 2, 2)
    assert patches[0, 0].tolist() == [[0.0, 1.0], [5.0, 6.0]]
    assert patches[1, 0].tolist() == [[2.0, 3.0], [7.0, 8.0]]
    assert patches[2, 0].tolist() == [[10.0, 11.0], [15.0, 16.0]]
    assert patches[4, 0, 0, 0] == 20  # the first patch of the second image


def test_a_grid_of_a_volume_with_channels() -> None:
    volume = torch.rand(2, 3, 4, 6, 8)
    patches = grid(volume, (2, 3, 4))
    assert patches.shape == (16, 3, 2, 3, 4)
    torch.testing.assert_close(patches[8 + 5], volume[1, :, 2:4, 0:3, 4:8])


@pytest.mark.parametrize(
    ("crop", "stride", "expected"),
    [
        ((256, 256), (8, 8), (64, 64)),
        ((112, 112, 80), (8, 8, 8), (24, 24, 16)),
        ((112, 112, 80), (16, 16, 16), (32, 32, 32)),
        ((16, 16), (8, 8), (16, 16)),
        ((64, 64, 8), (8, 8, 8), (16, 16, 8)),
        ((64, 64, 10), (8, 8, 1), (16, 16, 2)),
    ],
)
def test_a_patch_is_a_quarter_long_as_far_as_the_network_goes(
    crop: tuple[int, ...], stride: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert patch_size(crop, stride) == expected


def test_patches_show_one_class_and_say_whether_they_hold_enough_of_it() -> None:
    label = torch.tensor([[[1, 1, 0, 0], [1, 0, 0, 2]]])
    patches = PatchChooser(classes=3)(labelled(label), (2, 2), count=1)
    assert patches.label.tolist() == [0, 1, 2]
    # Shares: class 0 has 1/4 and 3/4, class 1 3/4 and 0, class 2 0 and 1/4; a third is enough.
    assert patches.holds_enough.tolist() == [True, True, False]
    assert patches.values[0, 0].tolist() == [[5.0, 5.0], [5.0, 0.0]]
    assert patches.values[1, 0].tolist() == [[5.0, 5.0], [5.0, 0.0]]


def test_padding_is_of_no_class() -> None:
    label = torch.zeros(1, 2, 4, dtype=torch.long)
    valid = torch.ones(1, 2, 4, dtype=torch.bool)
    valid[..., :2] = False
    patches = PatchChooser(classes=2)(labelled(label, valid=valid), (2, 2), count=2)
    assert patches.holds_enough.tolist() == [True, False, False, False]
    assert patches.values[0].eq(5).all()
    assert patches.values[1].eq(0).all()


def test_the_surest_of_the_patches_that_hold_enough_come_first() -> None:
    label = torch.tensor([[[0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1]]])
    entropy = torch.tensor([0.3, 0.1, 0.2, 0.0]).repeat_interleave(2).expand(1, 2, 8)
    item = labelled(label, entropy)
    item.crops[..., :] = torch.arange(1.0, 9.0)
    patches = PatchChooser(classes=2)(item, (2, 2), count=2)
    assert patches.values[:2, 0, 0, 0].tolist() == [3.0, 5.0]
    assert patches.holds_enough.tolist() == [True, True, True, False]


def test_there_are_never_more_than_the_grid_has() -> None:
    patches = PatchChooser(classes=2)(labelled(torch.zeros(1, 4, 4).long()), (4, 4), count=8)
    assert len(patches.values) == 2


def test_thresholds_go_up_where_most_patches_hold_enough_and_down_where_few_do() -> None:
    """Of class 0 all four patches are kept, of class 1 none of four: by 0.01 (4 - 3.2) and back."""
    label = torch.zeros(1, 2, 8, dtype=torch.long)
    label[:, 0, ::2] = 1
    chooser = PatchChooser(classes=3)
    chooser(labelled(label), (2, 2), count=1)
    expected = [1 / 3 + 0.01 * 0.8, 1 / 3 - 0.01 * 3.2, 1 / 3]
    assert chooser.thresholds.tolist() == pytest.approx(expected)
    assert chooser.steps.tolist() == [1.0, 1.0, 0.0]
    chooser(labelled(label), (2, 2), count=1)
    chooser(labelled(label), (2, 2), count=1)
    assert chooser.thresholds[0].item() == pytest.approx(1 / 3 + 0.01 * 0.8 * (1 + 1 + 1 / 2))


def test_thresholds_stay_between_nothing_and_all() -> None:
    chooser = PatchChooser(classes=2)
    chooser.thresholds.copy_(torch.tensor([0.999, 0.0]))
    label = torch.zeros(1, 2, 64, dtype=torch.long)
    chooser(labelled(label), (2, 2), count=1)
    assert chooser.thresholds.tolist() == [1.0, 0.0]
    chooser(labelled(label), (2, 2), count=1)  # nothing is more than all: 0.01 (0 - 0.8 x 32)
    assert chooser.thresholds.tolist() == pytest.approx([1 - 0.256, 0.0])
