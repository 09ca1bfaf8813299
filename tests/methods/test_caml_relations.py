import math

import pytest
import torch
from samples import make_batch
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.methods.caml import PROJECTED, RelationConfig, Relations


class Padded(nn.Module):
    """A head that passes features on."""

    def forward(self, features: Tensor) -> Tensor:
        return nn.functional.pad(features, (0, PROJECTED - features.shape[1]))


def make(classes: int = 2, **settings: object) -> Relations:
    torch.manual_seed(0)
    return Relations([4, 4], classes, RelationConfig(**settings))  # type: ignore[arg-type]  # any


def plain(classes: int = 2, **settings: object) -> Relations:
    relations = make(classes, **settings)
    relations.projectors = nn.ModuleList(Padded() for _ in range(2))
    relations.predictors = nn.ModuleList(nn.Identity() for _ in range(2))
    return relations


def maps_of(batch: Batch) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(len(batch.cases), 4, *batch.first.valid.shape[1:]) for _ in range(2)]


def predictions(label: Tensor, classes: int) -> Tensor:
    return nn.functional.one_hot(label, classes).movedim(-1, 1).float()


def right_answers(batch: Batch, classes: int) -> Tensor:
    label = torch.ones_like(batch.first.valid, dtype=torch.long)
    label[: batch.labelled_count] = batch.labels
    return predictions(label, classes)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_bank_holds_the_mean_of_both_where_both_are_right(
    dimensions: int, classes: int
) -> None:
    relations = plain(classes)
    batch = make_batch(dimensions, classes)
    batch.first.valid[1, :8] = False
    maps, logits = maps_of(batch), [right_answers(batch, classes) for _ in range(2)]
    logits[0][0, :, :4] = logits[0][0, :, :4].roll(1, 0)  # one is wrong here,
    logits[1][0, :, 4:8] = logits[1][0, :, 4:8].roll(1, 0)  # the other there
    relations(maps, logits, batch)
    mean = (maps[0] + maps[1]) / 2
    state = relations.bank.get_extra_state()
    assert list(state) == list(batch.cases[:2])
    for index, case in enumerate(batch.cases[:2]):
        for k in range(classes):
            label = batch.labels[index, 8:]
            allowed = mean[index, :, 8:].movedim(0, -1)[label == k]
            held = state[case][k][:, :4]
            assert len(held) == min(1024, len(allowed))
            gaps = torch.cdist(held, allowed, compute_mode="donot_use_mm_for_euclid_dist")
            assert gaps.amin(dim=1).max() < 1e-5


def test_alike_maps_relate_alike_and_the_same_single_prototype_costs_nothing() -> None:
    relations = plain(prototypes=1)
    batch = make_batch(2, labelled=1, unlabelled=1, size=(4, 4))
    batch.labels[:] = 1
    maps = torch.ones(2, 4, 4, 4)
    logits = right_answers(batch, 2)
    # One prototype of the foreground and none of the background.
    assert relations([maps, maps], [logits, logits], batch).item() == pytest.approx(0, abs=1e-6)
    batch.labels[0, 0] = 0
    logits = right_answers(batch, 2)
    found = relations([maps, maps], [logits, logits], batch)
    assert found.item() == pytest.approx(math.log(2), rel=1e-5)


def test_only_agreed_voxels_inside_are_compared_and_the_surest_first() -> None:
    relations = plain(positions=3)
    batch = make_batch(2)
    first = 5 * right_answers(batch, 2)
    first[2, :, 0, :5] *= 2  # surer
    second = right_answers(batch, 2)
    second[2, :, 0, 0] = second[2, :, 0, 0].roll(1, 0)  # not agreed
    batch.first.valid[2, 0, 1] = False
    maps = [each.requires_grad_() for each in maps_of(batch)]
    relations(maps, [first, second], batch).backward()
    for each in maps:
        assert each.grad is not None
        places = (each.grad.abs().sum(dim=1) > 0).nonzero().tolist()
        assert places == [[2, 0, 2], [2, 0, 3], [2, 0, 4]]


def test_detached_relations_teach_the_first_network_alone() -> None:
    relations = plain(detached=True)
    batch = make_batch(2)
    maps = [each.requires_grad_() for each in maps_of(batch)]
    logits = right_answers(batch, 2)
    relations(maps, [logits, logits], batch).backward()
    assert maps[0].grad is not None
    assert maps[0].grad.any()
    assert maps[1].grad is None or not maps[1].grad.any()


def test_normalised_features_have_no_length() -> None:
    batch = make_batch(2)
    logits = right_answers(batch, 2)
    found = {}
    for normalised in (False, True):
        for factor in (1.0, 3.0):
            relations = plain(normalised=normalised)
            torch.manual_seed(0)
            maps = [factor * each for each in maps_of(batch)]
            found[normalised, factor] = relations(maps, [logits, logits], batch).item()
    assert found[True, 1.0] == pytest.approx(found[True, 3.0], rel=1e-4)
    assert found[False, 1.0] != pytest.approx(found[False, 3.0], rel=1e-2)


@pytest.mark.parametrize("autocast", [False, True])
def test_all_heads_learn_also_under_autocast(*, autocast: bool) -> None:
    relations = make(4)
    batch = make_batch(3, 4)
    logits = right_answers(batch, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = relations(maps_of(batch), [logits, logits], batch)
    assert loss.dtype == torch.float32
    loss.backward()
    for name, weight in relations.named_parameters():
        assert weight.grad is not None, name
    for head in relations.projectors:
        assert any(p.grad is not None and p.grad.any() for p in head.parameters())


def test_filling_the_bank_moves_no_running_statistics() -> None:
    relations = make()
    batch = make_batch(2)
    before = [each.clone() for each in relations.buffers()]
    relations._remember([each[:2] for each in maps_of(batch)], batch, batch.first.valid[:2])
    assert all(torch.equal(old, new) for old, new in zip(before, relations.buffers(), strict=True))
