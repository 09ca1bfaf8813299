from typing import Any

import pytest
import torch
from fixed_predictions import Answering, by_halves, everywhere
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.methods.parts import weak_to_strong
from tracoco.methods.parts.cutmix import Mix
from tracoco.methods.parts.weak_to_strong import LabelledView, WeakToStrong

SURE, UNSURE = (0.97, 0.03), (0.9, 0.1)


class Bright(nn.Module):
    """Answers 1 where a crop is bright: surer by `slope`, and surer still when it is evaluated."""

    def __init__(self, slope: float = 20.0) -> None:
        super().__init__()
        self.slope = slope
        self.modes: list[bool] = []

    def forward(self, crops: Tensor) -> Tensor:
        self.modes.append(self.training)
        logits = (self.slope if self.training else 100.0) * (crops[:, :1] - 0.5)
        return torch.cat([-logits, logits], dim=1)


def make(dimensions: int = 3, **settings: Any) -> WeakToStrong:
    method = make_method("fixmatch", dimensions, **settings)
    assert isinstance(method, WeakToStrong)
    return method


def view(method: WeakToStrong, batch: Batch) -> LabelledView:
    predictions = method.predictions(batch, method.network(batch.first.values))
    return method.strong_labels(predictions)


def mix_with(monkeypatch: pytest.MonkeyPatch, box: slice) -> None:
    """Views that change nothing; a box of slices along the last axis comes from the other crop."""

    def draw(count: int, size: tuple[int, ...]) -> Mix:
        mask = torch.zeros(count, *size, dtype=torch.bool)
        mask[..., box] = True
        return Mix(torch.tensor([1, 0]), mask)

    monkeypatch.setattr(weak_to_strong, "draw_small_mix", draw)
    monkeypatch.setattr(weak_to_strong, "strong_view", lambda crops, *_: crops)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("box", [slice(0, 0), slice(0, 5), slice(0, 16)])
def test_crops_labels_and_padding_of_the_box_are_the_partners(
    monkeypatch: pytest.MonkeyPatch, dimensions: int, box: slice
) -> None:
    mix_with(monkeypatch, box)
    method = make(dimensions)
    method.network = Bright()
    batch = make_batch(dimensions)
    batch.first.values[2], batch.first.values[3] = 0.9, 0.1
    batch.first.valid[3] = False
    found = view(method, batch)
    for crop, (own, other) in enumerate([(1, 0), (0, 1)]):
        expected = torch.full(found.label[crop].shape, own)
        expected[..., box] = other
        assert torch.equal(found.label[crop], expected)
        assert torch.equal(found.crops[crop, 0] > 0.5, expected == 1)
        assert torch.equal(found.valid[crop], expected == 1)


def test_what_is_given_is_clean_and_what_is_kept_is_from_the_training_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mix_with(monkeypatch, slice(0, 5))
    method = make()
    method.network = Bright(slope=1.0)  # unsure in training, sure in evaluation
    batch = make_batch()
    batch.first.values[:] = 0.9
    sure = view(method, batch).sure
    assert sure[..., :5].all()
    assert not sure[..., 5:].any()
    assert method.network.modes == [True, False]


def test_pseudo_labels_can_all_be_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    mix_with(monkeypatch, slice(0, 5))
    method = make(pseudo_labels="clean")
    method.network = Bright(slope=1.0)
    batch = make_batch()
    batch.first.values[:] = 0.9
    assert view(method, batch).sure.all()


def test_pseudo_labels_can_go_by_the_statistics_of_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mix_with(monkeypatch, slice(0, 5))
    batch = make_batch()
    batch.first.values[2], batch.first.values[3] = 0.9, 0.1
    found = {}
    for form in ("training", "batch", "clean"):
        method = make(pseudo_labels=form)
        norm = nn.BatchNorm3d(1, affine=False)
        norm.get_buffer("running_mean").fill_(10.0)  # everything is dark by this
        method.network = nn.Sequential(norm, Bright())
        logits = torch.zeros(4, 2, 16, 16, 16)
        predictions = method.predictions(batch, logits)
        found[form] = predictions.given.argmax(dim=1).flatten(1).float().mean(dim=1).tolist()
        assert torch.equal(norm.get_buffer("running_mean"), torch.tensor([10.0]))
        assert norm.training
        assert (predictions.own is predictions.given) == (form != "training")
    assert found == {"training": [1, 0], "batch": [1, 0], "clean": [0, 0]}


def test_without_cutmix_there_is_no_clean_pass_and_one_crop_is_enough() -> None:
    method = make(cutmix=False, unlabelled_batch=1)
    network = method.network = Bright()
    view(method, make_batch(unlabelled=1))
    assert network.modes == [True]
    with pytest.raises(UserError, match=r"method\.cutmix to false"):
        make(unlabelled_batch=1)


def test_the_clean_pass_leaves_statistics_alone() -> None:
    method = make()
    norm = nn.BatchNorm3d(1)
    method.network = nn.Sequential(norm, Bright())
    batch = make_batch()
    logits = method.network(batch.first.values)
    before = norm.running_mean.clone() if norm.running_mean is not None else None
    predictions = method.predictions(batch, logits)
    assert before is not None
    assert torch.equal(before, norm.get_buffer("running_mean"))
    assert norm.training
    assert not predictions.given.requires_grad
    assert not predictions.own.requires_grad


def test_labels_count_from_the_threshold_on_but_not_in_the_padding() -> None:
    method = make(cutmix=False)
    method.network = Answering(by_halves(everywhere(*SURE), everywhere(*UNSURE)))
    batch = make_batch()
    batch.first.valid[2, 0] = False
    sure = view(method, batch).sure
    assert sure[..., :8].sum() == 2 * 16 * 16 * 8 - 16 * 8
    assert not sure[..., 8:].any()
    assert not sure[0, 0].any()
    method.config = method.config.model_copy(update={"threshold": 0.9})
    assert view(method, batch).sure.sum() == 2 * 16**3 - 16 * 16


def test_the_plain_lesson_is_of_the_crops_as_they_are() -> None:
    method = make()
    method.network = Bright()
    batch = make_batch()
    found = method.plain_labels(method.predictions(batch, method.network(batch.first.values)))
    assert torch.equal(found.crops, batch.first.values[2:])
    assert torch.equal(found.label, (batch.first.values[2:, 0] > 0.5).long())


@pytest.mark.parametrize("classes", [2, 4])
def test_dice_is_of_all_classes_and_nothing_without_a_label_that_counts(classes: int) -> None:
    # Class 0 is right by 3/4: 1 - 2 * 12 / (9 + 16); all others get what they should not have.
    logits = torch.log(torch.tensor([0.75, *[0.25 / (classes - 1)] * (classes - 1)]))
    logits = logits.reshape(1, -1, 1, 1).expand(2, -1, 100, 100).clone().requires_grad_()
    label, everything = torch.zeros(2, 100, 100).long(), torch.ones(2, 100, 100).bool()
    found = LabelledView(logits, everything, label, everything).dice(logits)
    assert found.item() == pytest.approx((0.04 + classes - 1) / classes, rel=1e-5)
    nothing = LabelledView(logits, everything, label, ~everything).dice(logits)
    nothing.backward()
    assert nothing.item() == 0.0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_health_counts_the_sure_voxels_inside() -> None:
    method = make(cutmix=False)
    batch = make_batch()
    sure_of_the_other = everywhere(*reversed(SURE))
    method.network = Answering(by_halves(sure_of_the_other, everywhere(*UNSURE)))
    batch.first.valid[2:, :, :, 12:] = False
    health = measured(method.health(method(batch, 0), batch))
    # What is unsure would be of class 0, but does not count.
    assert health == pytest.approx({"class/0": 0, "class/1": 1, "likely": 2 / 3})


def test_without_a_sure_voxel_no_class_is_called_absent() -> None:
    method = make(cutmix=False)
    method.network = Answering(everywhere(*UNSURE))
    batch = make_batch()
    assert measured(method.health(method(batch, 0), batch)) == {"likely": 0.0}
