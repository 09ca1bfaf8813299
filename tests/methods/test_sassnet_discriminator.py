import pytest
import torch
from torch import Tensor

from tracoco.methods.sassnet import Discriminator


def make(dimensions: int, classes: int = 2, channels: int = 1) -> Discriminator:
    torch.manual_seed(0)
    return Discriminator(classes, channels, dimensions, filters=2)


@pytest.mark.parametrize("size", [(16, 32), (7, 9), (16, 16, 16), (24, 8, 5), (1, 16, 2)])
def test_it_judges_crops_of_any_size(size: tuple[int, ...]) -> None:
    judge = make(len(size), classes=4, channels=3)
    verdict = judge(torch.rand(5, 3, *size), torch.rand(5, 3, *size), dropout=True)
    assert verdict.shape == (5, 2)
    assert verdict.isfinite().all()


def test_its_verdict_is_of_each_crop_by_itself_from_maps_and_crops() -> None:
    judge = make(2)
    maps, crops = torch.rand(2, 1, 16, 16), torch.rand(2, 1, 16, 16)
    verdict = judge(maps, crops, dropout=False)
    others: list[tuple[Tensor, Tensor]] = [
        (torch.cat([maps[:1], maps[1:] + 1]), crops),
        (maps, torch.cat([crops[:1], crops[1:] + 1])),
    ]
    for other in others:
        changed = judge(*other, dropout=False)
        torch.testing.assert_close(changed[0], verdict[0])
        assert not torch.allclose(changed[1], verdict[1])


def test_dropout_is_only_for_learning_whatever_the_mode() -> None:
    judge = make(3).train()
    crops = torch.rand(1, 1, 16, 16, 16)
    first, second = (judge(crops, crops, dropout=False) for _ in range(2))
    assert torch.equal(first, second)
    learning = [judge.eval()(crops, crops, dropout=True) for _ in range(8)]
    assert not all(torch.equal(learning[0], other) for other in learning[1:])


def test_dropout_leaves_out_whole_channels() -> None:
    seen: list[Tensor] = []
    judge = make(3)
    judge.deeper[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    judge(torch.rand(8, 1, 16, 16, 16), torch.rand(8, 1, 16, 16, 16), dropout=True)
    gone = (seen[0] == 0).flatten(2)
    assert torch.equal(gone.all(dim=2), gone.any(dim=2))
    assert 0 < gone.all(dim=2).sum() < 16
