import math

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.losses.supervised import supervised_loss
from tracoco.methods import ps_mt
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import StepOutput
from tracoco.methods.parts.student_teacher import CleanPass
from tracoco.methods.ps_mt import PSMT, TwoTeachers
from tracoco.testing.steps import after_steps

PAST_THE_RAMP = 1000


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> PSMT:
    settings = {"pretrain": 0.1, "turn_steps": 2, "decay": 0.996} | settings
    method = make_method("ps-mt", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, PSMT)
    return method


def weights(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def answer_with(network: nn.Module, *logits: float) -> None:
    """Let a network give every voxel the same logits."""
    head = network.get_submodule("head")
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.copy_(torch.tensor(logits) if name == "bias" else parameter * 0)


def constant(dimensions: int = 2, **settings: object) -> PSMT:
    """Teachers with the logits (2, 0) and (0, 0), a student that is undecided."""
    method = make(dimensions, 2, **settings)
    answer_with(method.teachers.networks[0], 2.0, 0.0)
    answer_with(method.teachers.networks[1], 0.0, 0.0)
    answer_with(method.student, 0.0, 0.0)
    return method


def ask(method: PSMT) -> dict[str, list[Tensor]]:
    """What each network is going to be asked."""
    asked: dict[str, list[Tensor]] = {"student": [], "first": [], "second": []}
    networks = (method.student, *method.teachers.networks)
    for name, network in zip(asked, networks, strict=True):
        encoder = network.get_submodule("encoder")
        encoder.register_forward_pre_hook(lambda _, crops, name=name: asked[name].append(crops[0]))
    return asked


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_term_by_hand_and_its_ramp(dimensions: int) -> None:
    """0.7311 is the first class's share of (1, 0); 15 % of 30 steps are 4, behind step 3."""
    method = constant(dimensions=dimensions, unsupervised_weight=2.0)
    assert (method.pretrain_steps, method.rampup_steps) == (3, 4)
    for step, ramp in [(3, 0.0), (5, 0.5), (7, 1.0), (PAST_THE_RAMP, 1.0)]:
        term = method(make_batch(dimensions), step).terms["confident_ce"]
        expected = 2 * ramp * 0.7311 * math.log(2)
        assert term.item() == pytest.approx(expected, abs=1e-4)
        assert term.requires_grad


def test_voxels_below_the_threshold_do_not_teach() -> None:
    assert (
        constant(threshold=0.75)(make_batch(2), PAST_THE_RAMP).terms["confident_ce"].item() == 0.0
    )


def test_padding_does_not_teach() -> None:
    batch = make_batch(2)
    batch.first.valid[2:] = False
    assert constant()(batch, PAST_THE_RAMP).terms["confident_ce"].item() == 0.0


@pytest.mark.parametrize("cutmix", [False, True])
def test_teachers_see_crops_as_they_are_and_the_student_strong_views_of_all(
    *, cutmix: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = make(cutmix=cutmix)
    asked = ask(method)
    monkeypatch.setattr(ps_mt, "strong_view", lambda crops, *_: crops + 100)
    batch = make_batch(2)
    method(batch, PAST_THE_RAMP)
    unlabelled = batch.first.values[2:]
    assert torch.equal(asked["first"][0], unlabelled)
    assert torch.equal(asked["second"][0], unlabelled)
    (seen,) = asked["student"]
    assert torch.equal(seen[:2], batch.first.values[:2] + 100)
    if not cutmix:
        assert torch.equal(seen[2:], unlabelled + 100)
        return
    # Of two crops each is the other's partner: every voxel is from one of them.
    own, other = seen[2:] == unlabelled + 100, seen[2:] == unlabelled.flip(0) + 100
    assert (own ^ other).all()
    assert own.any()
    assert other.any()


def copying(crops: Tensor) -> Tensor:
    """Logits that are sure of class 1 wherever a crop is above 1/2."""
    return torch.cat([0.5 - crops, crops - 0.5], dim=1) * 1000


@pytest.mark.parametrize("padded", [False, True])
def test_labels_and_padding_are_mixed_as_crops_are(
    *, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A student agrees with labels that are mixed as its crops are; wrong ones are in padding."""
    method = make()
    batch = make_batch(2)
    batch.first.valid[3] = not padded

    def label(crops: Tensor) -> tuple[Tensor, ...]:
        sign = torch.tensor([1.0, -1.0 if padded else 1.0]).reshape(2, 1, 1, 1)
        return ((sign * copying(crops)).softmax(dim=1),)

    monkeypatch.setattr(ps_mt, "strong_view", lambda crops, *_: crops)
    monkeypatch.setattr(method.teachers, "label", label)
    monkeypatch.setattr(method, "_perturbed", lambda crops, _: copying(crops))
    assert method(batch, PAST_THE_RAMP).terms["confident_ce"].item() < 0.01


def test_the_noise_reaches_the_student_and_is_as_long_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = make(feature_noise=3.0)
    torch.manual_seed(0)
    clean = method.student.eval().encode(make_batch(2).first.values)[-1]
    decoded = []
    original = method.student.decode

    def decode(features: list[Tensor]) -> Tensor:
        decoded.append(features[-1])
        return original(features)

    monkeypatch.setattr(method.student, "decode", decode)
    method._perturbed(make_batch(2).first.values, make_batch(2).first.valid)
    torch.testing.assert_close((decoded[0] - clean).flatten(1).norm(dim=1), torch.full((4,), 3.0))
    assert decoded[0].requires_grad


def test_at_first_all_three_learn_from_labels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ps_mt, "strong_view", lambda crops, *_: crops + 100)
    method = constant()
    batch = make_batch(2)
    asked = ask(method)
    output = method(batch, method.pretrain_steps - 1)
    terms = output.terms
    crops = batch.first.values[:2]
    assert torch.equal(asked["student"][0], crops + 100)
    assert torch.equal(asked["first"][0], crops)
    assert torch.equal(asked["second"][0], crops)
    assert list(terms) == ["supervised"]
    assert method.health(output, batch) == PseudoLabelHealth()
    expected = torch.zeros(())
    for logits in [(2.0, 0.0), (0.0, 0.0), (0.0, 0.0)]:
        voxels = torch.tensor(logits).reshape(1, 2, 1, 1).expand(2, 2, 16, 16)
        expected = expected + supervised_loss(voxels, batch.labels, batch.first.valid[:2])
    torch.testing.assert_close(terms["supervised"], expected)
    terms["supervised"].backward()
    for network in (method.student, *method.teachers.networks):
        assert all(parameter.grad is not None for parameter in network.parameters())


def test_later_the_teachers_have_no_gradient_so_that_no_optimizer_moves_them() -> None:
    method = make()
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.1, momentum=0.9, weight_decay=0.1)
    before = []
    for step in range(6):
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(method(make_batch(2), step).terms.values())).sum().backward()
        before.append(weights(method.teachers))
        optimizer.step()
        moved = not torch.equal(before[-1], weights(method.teachers))
        assert moved == (step < 3)


def test_teachers_follow_in_turns_and_the_other_stays_as_it_is() -> None:
    method = make()
    names = []
    for step in range(9):
        before = [weights(teacher) for teacher in method.teachers.networks]
        method.after_step(StepOutput({}), make_batch(2), step)
        after = [weights(teacher) for teacher in method.teachers.networks]
        for number in (0, 1):
            if torch.equal(before[number], after[number]):
                continue
            names.append((step, number))
            expected = 0.996 * before[number] + 0.004 * weights(method.student)
            torch.testing.assert_close(after[number], expected)
    assert names == [(3, 0), (4, 0), (5, 1), (6, 1), (7, 0), (8, 0)]


def test_a_teacher_takes_in_the_statistics_of_batchnorm() -> None:
    method = make()
    for network in (method.student, *method.teachers.networks):
        network.add_module("norm", nn.BatchNorm1d(1))
    method.student.get_buffer("norm.running_mean").fill_(1.0)
    method.after_step(StepOutput({}), make_batch(2), 3)
    first, second = (each.get_buffer("norm.running_mean") for each in method.teachers.networks)
    assert first.item() == pytest.approx(0.004)
    assert second.item() == 0.0


def test_a_turn_is_an_eightieth_of_the_run_and_at_least_a_step() -> None:
    assert make(turn_steps=None).turn_steps == 1
    long = make_method("ps-mt", 2, 2, 8000)
    assert isinstance(long, PSMT)
    assert (long.turn_steps, long.rampup_steps, long.pretrain_steps) == (100, 1200, 400)


@pytest.mark.parametrize(
    ("steps", "decay"), [(79, 0.0), (80, 0.0), (800, 0.9), (8000, 0.99), (20000, 0.996)]
)
def test_a_teacher_remembers_a_turn_at_most_unless_a_decay_is_given(
    steps: int, decay: float
) -> None:
    method = make_method("ps-mt", 2, 2, steps)
    assert isinstance(method, PSMT)
    assert method.decay == pytest.approx(decay)
    assert make(decay=0.5).decay == 0.5


def test_the_three_networks_start_apart() -> None:
    method = make()
    first, second = (weights(teacher) for teacher in method.teachers.networks)
    assert not torch.equal(first, second)
    assert not torch.equal(first, weights(method.student))


def test_both_teachers_predict_by_the_mean_of_their_logits_or_the_first_alone() -> None:
    method = constant().eval()
    both, first, second = method.predict_members(torch.rand(1, 1, 16, 16))
    assert both[0, 0, 0, 0].item() == pytest.approx(0.7311, abs=1e-4)
    assert first[0, 0, 0, 0].item() == pytest.approx(0.8808, abs=1e-4)
    assert second[0, 0, 0, 0].item() == pytest.approx(0.5)
    alone = constant(predict_with="teacher").eval().predict(torch.rand(1, 1, 16, 16))
    assert alone[0, 0, 0, 0].item() == pytest.approx(0.8808, abs=1e-4)


def test_teachers_label_without_dropout_and_go_back_to_training() -> None:
    method = make().train()
    crops = make_batch(2).first.values
    assert torch.equal(method.teachers.label(crops)[-1], method.teachers.label(crops)[-1])
    assert all(part.training for part in method.modules())


@pytest.mark.parametrize("form", ["batch", "clean"])
def test_teachers_label_by_the_statistics_that_are_asked_for(form: CleanPass) -> None:
    norms = [nn.BatchNorm2d(2, affine=False) for _ in range(2)]
    teachers = TwoTeachers(norms, form).train()
    values = make_batch(2).first.values
    # Channel 1 is far below channel 0, but each is normalised by its own mean and deviation.
    crops = torch.cat([values.flip(0), values - 50], dim=1)
    *_, both = teachers.label(crops)
    brighter = (values > values.flip(0))[:, 0]
    assert torch.equal(both.argmax(dim=1) == 1, brighter & (form == "batch"))
    for norm in norms:
        assert torch.equal(norm.get_buffer("running_mean"), torch.zeros(2))


def test_health_by_hand() -> None:
    method = constant()
    batch = make_batch(2)
    batch.first.valid[3, :8] = False
    output = method(batch, PAST_THE_RAMP)
    apart = (0.8808 - 0.5) * (256 + 128) / 2
    assert measured(method.health(output, batch)) == pytest.approx(
        {"class/0": 1.0, "class/1": 0.0, "agreement": 1.0, "distance": apart, "likely": 1.0},
        rel=1e-3,
    )


def test_one_unlabelled_crop_cannot_be_mixed() -> None:
    with pytest.raises(UserError, match=r"method\.cutmix to false"):
        make_method("ps-mt", 2, unlabelled_batch=1)
    method = make_method("ps-mt", 2, unlabelled_batch=1, cutmix=False)
    assert method(make_batch(2, unlabelled=1), PAST_THE_RAMP).terms["confident_ce"].isfinite()


@pytest.mark.parametrize("saved_at", [2, 3, 6])
def test_saved_and_built_anew_a_run_goes_on_alike(saved_at: int) -> None:
    assert torch.equal(*(weights(after_steps(make, range(8), save)) for save in (None, saved_at)))
