from dataclasses import replace

import pytest
import torch
from samples import make_batch
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.methods.ss_net import KEPT, PROJECTED, ClassSeparation


def make(classes: int = 2, positions: int = 4096) -> ClassSeparation:
    torch.manual_seed(0)
    return ClassSeparation(4, classes, positions)


def logits_of(batch: Batch, classes: int) -> Tensor:
    """An answer that is right on labelled crops and the first foreground class elsewhere."""
    prediction = torch.ones_like(batch.first.valid, dtype=torch.long)
    prediction[: batch.labelled_count] = batch.labels
    return nn.functional.one_hot(prediction, classes).movedim(-1, 1).float()


def features_of(batch: Batch) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(len(batch.cases), 4, *batch.first.valid.shape[1:])


def without_norm(separation: ClassSeparation) -> ClassSeparation:
    """Heads without normalisation, which would couple all voxels that are drawn."""
    separation.projector[1] = nn.Identity()
    separation.predictor[1] = nn.Identity()
    return separation


class Given(nn.Module):
    """A head that passes features on, or scores them by their first entry."""

    def __init__(self, sign: float = 0.0) -> None:
        super().__init__()
        self.sign = sign

    def forward(self, features: Tensor) -> Tensor:
        if self.sign:
            return self.sign * features[:, :1]
        return nn.functional.pad(features, (0, PROJECTED - features.shape[1]))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_only_correct_voxels_become_prototypes_and_the_best_scored_of_them(
    dimensions: int, classes: int
) -> None:
    separation = make(classes)
    separation.projector = Given()  # type: ignore[assignment] # a stand-in
    separation.selectors = nn.ModuleList(Given(1.0) for _ in range(1, classes))
    batch = make_batch(dimensions, classes)
    features, logits = features_of(batch), logits_of(batch, classes)
    logits[0] = logits[0].roll(1, 0)  # wrong in the whole of the first crop
    separation(features, logits, batch)
    for k in range(1, classes):
        allowed = features[1].movedim(0, -1)[batch.labels[1] == k]
        best = allowed[allowed[:, 0].argsort(descending=True)][:KEPT]
        assert separation.held[k - 1].sum() == len(best)
        torch.testing.assert_close(separation.prototypes[k - 1, : len(best), :4], best)


def test_a_class_without_a_correct_voxel_keeps_its_prototypes() -> None:
    separation = make(4)
    batch = make_batch(3, 4)
    separation(features_of(batch), logits_of(batch, 4), batch)
    before, held = separation.prototypes.clone(), separation.held.clone()
    labels = batch.labels.clone()
    labels[labels == 2] = 0
    changed = replace(batch, labels=labels)
    separation(2 * features_of(batch), logits_of(changed, 4), changed)
    assert torch.equal(separation.prototypes[1], before[1])
    assert torch.equal(separation.held, held)
    assert not torch.equal(separation.prototypes[0], before[0])


def test_padding_is_neither_prototype_nor_compared() -> None:
    separation = make()
    batch = make_batch()
    padded = replace(batch, first=replace(batch.first, valid=batch.first.valid.clone()))
    padded.first.valid[:, :8] = False
    features = features_of(batch).requires_grad_()
    separation(features, logits_of(batch, 2), padded).backward()
    assert features.grad is not None
    assert features.grad[:, :, 8:].any()
    assert not features.grad[:, :, :8].any()
    padded.first.valid[:2] = False
    other = make()
    other(features.detach(), logits_of(batch, 2), padded)
    assert not other.held.any()


def test_features_by_hand_on_and_across_the_prototype() -> None:
    separation = make()
    separation.projector = separation.predictor = Given()  # type: ignore[assignment] # a stand-in
    separation.selectors = nn.ModuleList([Given(1e-9)])
    batch = make_batch(2, labelled=1, unlabelled=1, size=(2, 2))
    batch.labels[:] = 1
    features = torch.zeros(2, 4, 2, 2)
    features[0, 0] = 1.0  # labelled voxels, which are the prototypes
    features[1, 0, 0] = features[1, 1, 1] = 2.0  # half of the others along them, half across
    found = separation(features, logits_of(batch, 2), batch)
    assert found.item() == pytest.approx(0.5 / 2, rel=1e-4)


def test_labelled_voxels_go_by_their_label_and_others_by_the_answer() -> None:
    separation = without_norm(make(4))
    batch = make_batch(3, 4)
    logits = logits_of(batch, 4)
    separation(features_of(batch), logits, batch)
    logits[0] = logits[0].roll(1, 0)  # what is answered to labelled crops does not matter
    logits[2] = logits[2].roll(-1, 0)  # background
    features = features_of(batch).requires_grad_()
    separation(features, logits, batch).backward()
    assert features.grad is not None
    taught = features.grad.abs().sum(dim=1) > 0
    assert torch.equal(taught[:2], batch.labels > 0)
    assert not taught[2].any()
    assert taught[3].all()


@pytest.mark.parametrize("autocast", [False, True])
def test_every_head_learns_and_prototypes_have_no_gradient(autocast: bool) -> None:  # noqa: FBT001 - a parameter
    separation = make(4)
    batch = make_batch(3, 4)
    judged: list[bool] = []
    for selector in separation.selectors:
        selector.register_forward_pre_hook(lambda _, seen: judged.append(seen[0].requires_grad))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = separation(features_of(batch), logits_of(batch, 4), batch)
    assert loss.dtype == torch.float32
    loss.backward()
    for name, parameter in separation.named_parameters():
        assert parameter.grad is not None, name
    for head in (separation.projector, *separation.selectors):
        assert any(p.grad is not None and p.grad.any() for p in head.parameters())
    assert not separation.prototypes.requires_grad
    assert judged
    assert not any(judged)  # a feature is not drawn to what is scored highly


def test_making_prototypes_moves_no_running_statistics() -> None:
    separation = make()
    batch = make_batch()
    before = [each.clone() for each in separation.buffers()][2:]
    separation._renew(features_of(batch)[:2], batch.labels, batch.first.valid[:2])
    assert all(
        torch.equal(old, new)
        for old, new in zip(before, list(separation.buffers())[2:], strict=True)
    )
    assert separation.training
    assert separation.held.all()


def test_no_more_voxels_than_the_limit_are_compared() -> None:
    separation = without_norm(make(positions=7))
    batch = make_batch()
    features = features_of(batch).requires_grad_()
    separation(features, logits_of(batch, 2), batch).backward()
    assert features.grad is not None
    assert int((features.grad.abs().sum(dim=1) > 0).sum()) == 2 * 7
