import math
from collections.abc import Callable

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.methods.method import StepOutput
from tracoco.methods.sassnet import Discriminator, SASSNet

PAST_THE_RAMP = 1000


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> SASSNet:
    method = make_method(
        "sassnet", dimensions, classes, 30, 2, **{"discriminator_filters": 4} | settings
    )
    assert isinstance(method, SASSNet)
    return method


def undecided(method: SASSNet) -> SASSNet:
    """Whatever the discriminator sees, it finds both kinds equally likely."""
    with torch.no_grad():
        for weight in method.discriminator.part.verdict.parameters():
            weight.zero_()
    return method


def discriminator_loss(
    method: SASSNet, batch: Batch, output: StepOutput, monkeypatch: pytest.MonkeyPatch
) -> Tensor:
    """What `after_step` would go down, as a loss that is still connected."""
    found: list[Tensor] = []

    def note(loss: Callable[[Discriminator], Tensor]) -> None:
        method.discriminator.part.requires_grad_(requires_grad=True)
        found.append(loss(method.discriminator.part))

    monkeypatch.setattr(method.discriminator, "descend", note)
    method.after_step(output, batch, 0)
    return found[0]


def weights(method: SASSNet) -> list[Tensor]:
    return [weight.detach().clone() for weight in method.discriminator.parameters()]


def train(method: SASSNet, steps: range) -> None:
    """As the trainer does, with a batch and noise that are a function of the step."""
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.01)
    for step in steps:
        torch.manual_seed(step)
        optimizer.zero_grad()
        batch = make_batch(2, seed=step)
        output = method(batch, step)
        torch.stack(list(output.terms.values())).sum().backward()
        optimizer.step()
        method.after_step(output, batch, step)


def test_an_undecided_discriminator_costs_both_sides_ln_2(monkeypatch: pytest.MonkeyPatch) -> None:
    method, batch = undecided(make()), make_batch(2)
    output = method(batch, PAST_THE_RAMP)
    assert output.terms["adversarial"].item() == pytest.approx(0.01 * math.log(2))
    assert discriminator_loss(method, batch, output, monkeypatch).item() == pytest.approx(
        math.log(2)
    )


def test_the_adversarial_term_ramps_up_over_the_run() -> None:
    method = undecided(make(unsupervised_weight=1.0))
    for step, ramp in [(0, math.exp(-5)), (15, math.exp(-1.25)), (30, 1.0)]:
        term = method(make_batch(2), step).terms["adversarial"].item()
        assert term == pytest.approx(ramp * math.log(2))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_adversarial_term_teaches_shapes_and_never_the_discriminator(
    dimensions: int, classes: int
) -> None:
    method = make(dimensions, classes)
    method(make_batch(dimensions, classes), PAST_THE_RAMP).terms["adversarial"].backward()
    assert all(weight.grad is None for weight in method.discriminator.parameters())
    assert all(weight.grad is None for weight in method.network.head.parameters())
    for part in (method.network.encoder, method.network.decoder, method.distance_head):
        assert any(w.grad is not None and w.grad.any() for w in part.parameters())


def test_the_discriminator_s_loss_teaches_nothing_but_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method, batch = make(), make_batch(2)
    output = method(batch, PAST_THE_RAMP)
    discriminator_loss(method, batch, output, monkeypatch).backward()
    assert all(weight.grad is None for weight in method.network.parameters())
    assert all(weight.grad is None for weight in method.distance_head.parameters())
    assert all(weight.grad is not None for weight in method.discriminator.parameters())


def test_to_go_down_the_adversarial_term_is_to_be_taken_for_labelled() -> None:
    method, batch = make(unsupervised_weight=1.0).eval(), make_batch(2)
    unlabelled = slice(2, None)

    def taken() -> float:
        with torch.no_grad():
            shapes = method.logits_and_distances(batch.first.values)[1][unlabelled]
            crops = batch.first.values[unlabelled]
            verdict = method.discriminator.part(shapes, crops, dropout=False)
        return float(verdict.softmax(dim=1)[:, 1].mean())

    before = taken()
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=1.0)
    for _ in range(5):
        optimizer.zero_grad()
        method(batch, PAST_THE_RAMP).terms["adversarial"].backward()
        optimizer.step()
    assert taken() > before


def test_the_discriminator_learns_to_tell_the_crops_apart() -> None:
    method, batch = make(discriminator_rate=0.01), make_batch(2, labelled=1, unlabelled=3)
    batch.first.values[:1] += 1
    found = []
    for _ in range(40):
        with torch.no_grad():
            output = method(batch, 0)
        method.after_step(output, batch, 0)
        found.append(method.health(output, batch).further["told_apart"])
    assert sum(found[-10:]) > 9


def test_the_discriminator_judges_without_dropout_and_learns_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = make()
    original, dropouts = method.discriminator.part.forward, []

    def note(maps: Tensor, crops: Tensor, *, dropout: bool) -> Tensor:
        dropouts.append(dropout)
        return original(maps, crops, dropout=dropout)

    monkeypatch.setattr(method.discriminator.part, "forward", note)
    batch = make_batch(2)
    output = method(batch, PAST_THE_RAMP)
    method.after_step(output, batch, PAST_THE_RAMP)
    assert dropouts == [False, False, True]


def test_the_labelled_crops_are_as_many_as_the_batch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    method, batch = make(), make_batch(2, labelled=1, unlabelled=3)

    def told(maps: Tensor, *_: object, **__: object) -> Tensor:
        verdicts = torch.tensor([[-9.0, 9.0]] + [[9.0, -9.0]] * 3, requires_grad=True)
        return {1: verdicts[:1], 3: verdicts[1:], 4: verdicts}[len(maps)]

    monkeypatch.setattr(method.discriminator.part, "forward", told)
    output = method(batch, PAST_THE_RAMP)
    term = output.terms["adversarial"].item()
    assert term == pytest.approx(0.01 * 18, rel=1e-4)
    loss = discriminator_loss(method, batch, output, monkeypatch).item()
    assert loss == pytest.approx(0.0, abs=1e-6)
    assert method.health(output, batch).further["told_apart"] == 1.0


@pytest.mark.parametrize("behind", [0.0, 5.0])
def test_what_is_padding_is_not_shown_to_the_discriminator(
    behind: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, batch = make(), make_batch(2)
    batch.first.valid[:, :4] = False
    batch.first.values[:, :, :4] = behind
    maps = torch.full((4, 1, 16, 16), 0.5)
    maps[:, :, :4] = behind
    monkeypatch.setattr(method, "logits_and_distances", lambda _: (torch.zeros(4, 2, 16, 16), maps))
    asked: list[tuple[Tensor, Tensor]] = []

    def judge(shapes: Tensor, crops: Tensor, **_: object) -> Tensor:
        asked.append((shapes, crops))
        return torch.zeros(len(crops), 2)

    monkeypatch.setattr(method.discriminator.part, "forward", judge)
    output = method(batch, PAST_THE_RAMP)
    discriminator_loss(method, batch, output, monkeypatch)
    parts = (slice(2, None), slice(2), slice(None))  # unlabelled, labelled, and all to learn from
    for (shapes, crops), part in zip(asked, parts, strict=True):
        assert not shapes[:, :, :4].any()
        assert not crops[:, :, :4].any()
        assert (shapes[:, :, 4:] == 0.5).all()
        assert torch.equal(crops[:, :, 4:], batch.first.values[part, :, 4:])


def test_a_step_moves_the_discriminator_once_and_only_after_the_network() -> None:
    method, batch = make(), make_batch(2)
    before = weights(method)
    output = method(batch, 0)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(method), strict=True))
    method.after_step(output, batch, 0)
    moved = weights(method)
    assert not any(torch.equal(a, b) for a, b in zip(before, moved, strict=True))
    assert method.discriminator.get_extra_state()["state"][0]["step"] == 1


def test_saved_and_resumed_it_takes_the_same_steps() -> None:
    straight, first, second = make(), make(), make()
    train(straight, range(4))
    train(first, range(2))
    second.load_state_dict(first.state_dict())
    train(second, range(2, 4))
    for name, value in straight.state_dict().items():
        if isinstance(value, Tensor):
            assert torch.equal(value, second.state_dict()[name]), name
    moments = straight.discriminator.get_extra_state()["state"]
    resumed = second.discriminator.get_extra_state()["state"]
    assert moments[0]["step"] == resumed[0]["step"] == 4
    assert torch.equal(moments[0]["exp_avg"], resumed[0]["exp_avg"])


def test_health_tells_how_many_crops_are_told_apart_beside_what_two_heads_tell() -> None:
    method, batch = make(), make_batch(2)
    found = measured(method.health(method(batch, 0), batch))
    assert set(found) == {"class/0", "class/1", "head_agreement", "told_apart"}
