import math
from typing import Any

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor

from tracoco.methods.method import StepOutput
from tracoco.methods.tri_u_mt import TaskOutputs, TaskTarget, TriUMT, target_loss

PAST_THE_RAMP = 1000


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> TriUMT:
    method = make_method("tri-u-mt", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, TriUMT)
    return method


def voxel(probability: list[float], distance: float, picture: float) -> TaskOutputs:
    """What is said of one crop of one voxel."""
    logits = torch.tensor(probability).log().clamp(min=-100).reshape(1, -1, 1, 1)
    classes = len(probability)
    return TaskOutputs(
        logits,
        torch.full((1, classes - 1, 1, 1), distance),
        torch.full((1, classes, 1, 1), picture),
    )


def lessons_of(
    method: TriUMT, predictions: list[TaskOutputs], monkeypatch: pytest.MonkeyPatch
) -> list[TaskTarget]:
    coming = iter(predictions)
    monkeypatch.setattr(method.teacher.network, "outputs", lambda *_: next(coming))
    found = method.targets(torch.zeros(1, 1, 1, 1))
    assert next(coming, None) is None
    return found


def test_two_passes_are_put_together_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [voxel([0.5, 0.5], -0.6, 0.5), voxel([1.0, 0.0], -0.2, 0.9)]
    mask, distance, picture = lessons_of(make(passes=2), passes, monkeypatch)
    # Entropies of 1 and 0 bits: weights of 1 / (1 + e) and e / (1 + e).
    assert mask.target.flatten().tolist() == pytest.approx([0.865529, 0.134471], rel=1e-4)
    assert mask.trust.item() == pytest.approx(1 - 0.569604, rel=1e-4)
    # From 0 to 1 the distances are 0.2 and 0.4, with a variance of 0.02 as a sample.
    assert distance.target.item() == pytest.approx(0.3)
    assert distance.trust.item() == pytest.approx(math.exp(-0.02), rel=1e-5)
    assert picture.target.flatten().tolist() == pytest.approx([0.7, 0.7])
    deviation = math.sqrt(0.08)
    assert picture.trust.flatten().tolist() == pytest.approx([math.exp(-deviation)] * 2, rel=1e-5)


def test_entropies_are_shares_of_the_largest_with_four_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unsure, sure = [0.25] * 4, [0.0, 1.0, 0.0, 0.0]
    passes = [voxel(unsure, 0.0, 0.5)] * 2
    assert lessons_of(make(classes=4, passes=2), passes, monkeypatch)[0].trust.item() == (
        pytest.approx(0.0, abs=1e-6)
    )
    passes = [voxel(unsure, 0.0, 0.5), voxel(sure, 0.0, 0.5)]
    mask = lessons_of(make(classes=4, passes=2), passes, monkeypatch)[0]
    assert mask.target.flatten()[0].item() == pytest.approx(0.25 / (1 + math.e), rel=1e-4)


def test_passes_that_agree_are_trusted_wholly(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [voxel([1.0, 0.0], 0.123, 0.456)] * 3
    for target in lessons_of(make(passes=3), passes, monkeypatch):
        assert target.trust.min().item() == pytest.approx(1.0, abs=1e-3)
        assert target.trust.max() <= 1


def test_the_consistency_is_a_sum_of_weighted_means_of_voxels_inside() -> None:
    valid = torch.tensor([[[True, True, False]]])
    zeros = torch.zeros(1, 2, 1, 3)
    mask = TaskTarget(
        torch.tensor([[[[1.0, 2.0, 9.0]], [[0.0, 0.0, 9.0]]]]), torch.ones(1, 1, 1, 3)
    )
    picture = TaskTarget(torch.ones(1, 2, 1, 3), torch.tensor([0.5, 0.1]).reshape(1, 2, 1, 1))
    loss = target_loss([zeros, zeros], [mask, picture], valid)
    assert loss.item() == pytest.approx((1 + 4) / 4 + 0.3)


@pytest.mark.parametrize(("dimensions", "classes"), [(2, 2), (2, 4), (3, 2)])
def test_a_teacher_like_the_student_without_noise_or_dropout_has_nothing_to_teach(
    dimensions: int, classes: int
) -> None:
    method = make(dimensions, classes, noise=0.0, dropout=0.0, passes=2).eval()
    terms = method(make_batch(dimensions, classes), PAST_THE_RAMP).terms
    assert terms["consistency"].item() == pytest.approx(0.0, abs=1e-10)
    assert terms["pseudo_tasks"].item() > 0


def test_dropout_and_noise_are_the_teacher_s_in_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    method, batch = make(passes=3), make_batch(2)
    seen: list[tuple[Tensor, float]] = []
    for network in (method.student, method.teacher.network):
        outputs = network.outputs

        def note(crops: Tensor, dropout: float = 0.0, outputs: Any = outputs) -> TaskOutputs:
            seen.append((crops, dropout))
            found: TaskOutputs = outputs(crops, dropout)
            return found

        monkeypatch.setattr(network, "outputs", note)
    method(batch, 0)
    assert [dropout for _, dropout in seen] == [0.0, 0.5, 0.5, 0.5]
    noises = [crops - batch.first.values for crops, _ in seen]
    for noise in noises:
        assert noise.std().item() == pytest.approx(0.02 * 0.9594, rel=0.1)
    assert not torch.equal(noises[1], noises[2])


def test_the_consistency_rises_over_half_the_run_and_stays() -> None:
    method = make()
    weights = [method.consistency_weight(step) for step in (0, 15, 30, PAST_THE_RAMP)]
    assert weights == pytest.approx([0.1 * math.exp(-5), 0.1, 0.1, 0.1])
    method = make(noise=0.0, dropout=0.0, passes=2).eval()
    with torch.no_grad():
        for weight in method.teacher.parameters():
            weight.mul_(1.5)
    first, last = (method(make_batch(2), step).terms["consistency"].item() for step in (0, 15))
    assert last > 0
    assert first == pytest.approx(math.exp(-5) * last, rel=1e-4)


def test_pseudo_tasks_teach_all_but_the_mask_decoder_and_no_teacher() -> None:
    method = make(passes=2)
    method(make_batch(2), 0).terms["pseudo_tasks"].backward()
    silent = [method.student.network.decoder, method.student.network.head, method.teacher]
    for part in silent:
        assert all(weight.grad is None for weight in part.parameters())
    taught = [
        method.student.network.encoder,
        method.student.distance,
        method.student.reconstruction,
    ]
    for part in taught:
        assert any(w.grad is not None and w.grad.any() for w in part.parameters())


def test_the_consistency_teaches_three_decoders_and_no_teacher() -> None:
    method = make(passes=2)
    method(make_batch(2), PAST_THE_RAMP).terms["consistency"].backward()
    assert all(weight.grad is None for weight in method.teacher.parameters())
    parts = [
        *(method.student.network.encoder, method.student.network.decoder),
        *(method.student.network.head, method.student.distance, method.student.reconstruction),
    ]
    for part in parts:
        assert any(w.grad is not None and w.grad.any() for w in part.parameters())


def test_labels_teach_labelled_crops_and_pseudo_labels_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = make(passes=2, distance_weight=3.0, reconstruction_weight=5.0)
    calls: list[tuple[Tensor, Tensor]] = []

    def note(
        prediction: TaskOutputs, labels: Tensor, crops: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor]:
        calls.append((labels, crops))
        assert len(prediction.logits) == len(labels) == len(crops)
        return torch.tensor(1.0), torch.tensor(2.0)

    monkeypatch.setattr("tracoco.methods.tri_u_mt.task_losses", note)
    batch = make_batch(2, labelled=1, unlabelled=3)
    terms = method(batch, 0).terms
    assert torch.equal(calls[0][0], batch.labels)
    assert torch.equal(calls[0][1], batch.first.values[:1])
    assert torch.equal(calls[1][1], batch.first.values[1:])
    assert terms["signed_distance"].item() == 3.0
    assert terms["reconstruction"].item() == 10.0
    assert terms["pseudo_tasks"].item() == pytest.approx(0.1 * 3.0)


def test_pictures_of_z_scores_lie_between_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    method, shown = make(passes=2), []
    method.limits = (-5.0, 5.0)

    def note(_: TaskOutputs, __: Tensor, crops: Tensor, ___: Tensor) -> tuple[Tensor, Tensor]:
        shown.append(crops)
        return torch.tensor(1.0), torch.tensor(2.0)

    monkeypatch.setattr("tracoco.methods.tri_u_mt.task_losses", note)
    batch = make_batch(2)
    method(batch, 0)
    torch.testing.assert_close(torch.cat(shown), (batch.first.values + 5) / 10)


def test_further_decoders_learn_more_slowly_and_do_not_predict() -> None:
    method = make()
    network, further = method.parameter_groups()
    assert "rate_factor" not in network
    assert further["rate_factor"] == 0.1
    assert method.inference_network() is method.student.network
    assert method.trained_networks() == [method.student]
    teacher = make(predict_with="teacher")
    assert teacher.inference_network() is teacher.teacher.network.network


def test_health_compares_student_and_teacher_on_unlabelled_crops() -> None:
    method, batch = make(passes=2), make_batch(2)
    output = method(batch, 0)
    figures = measured(method.health(output, batch))
    assert set(figures) == {"class/0", "class/1", "agreement", "distance"}
    assert figures["class/0"] + figures["class/1"] == pytest.approx(1.0)


def test_the_teacher_follows_all_three_decoders() -> None:
    method = make()
    with torch.no_grad():
        for parameter in method.student.parameters():
            parameter.add_(1.0)
    method.after_step(StepOutput({}), make_batch(2), 0)
    pairs = zip(method.student.parameters(), method.teacher.parameters(), strict=True)
    assert all(torch.equal(own, average) for own, average in pairs)


def test_padding_does_not_count() -> None:
    method = make(noise=0.0, dropout=0.0, passes=2).eval()
    batch = make_batch(2)
    batch.first.valid[:] = False
    terms = method(batch, PAST_THE_RAMP).terms
    del terms["supervised"]  # Dice of nothing is judged by its own tests
    assert all(term.item() == 0.0 for term in terms.values())
