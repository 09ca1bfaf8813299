from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.losses.consistency import ce_loss, kl_loss, mse_loss
from tracoco.losses.crc import PeerLoss, crc_loss
from tracoco.methods.method import StepOutput
from tracoco.methods.parts.co_training import CoTraining
from tracoco.methods.tracoco import TraCoCo

PAST_THE_RAMP = 1000


def test_the_two_networks_start_differently() -> None:
    first, second = make_method("tracoco").trained_networks()
    pairs = list(zip(first.parameters(), second.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in pairs)


def test_lambda_is_zero_at_first_and_weights_all_but_the_supervised_term() -> None:
    method = make_method("tracoco", rampup_steps=100, unsupervised_weight=0.5)
    batch = make_batch()

    def terms(step: int) -> dict[str, float]:
        torch.manual_seed(0)
        return {name: term.item() for name, term in method(batch, step).terms.items()}

    start, half, full = terms(0), terms(50), terms(100)
    for name in ("crc", "translation", "entropy"):
        assert start[name] == 0
        assert half[name] == pytest.approx(full[name] / 2, rel=1e-5)
    assert start["supervised"] == pytest.approx(full["supervised"])


def test_the_ramp_is_a_third_of_the_run_unless_given() -> None:
    for settings, length in (({}, 300), ({"rampup_steps": 7}, 7)):
        method = make_method("tracoco", steps=900, **settings)
        assert isinstance(method, TraCoCo)
        assert method.unsupervised_weight(length) == 1
        assert method.unsupervised_weight(length - 1) < 1


@pytest.mark.parametrize(
    ("rampup", "half"), [("cosine", 0.5), ("sigmoid", 0.2865), ("linear", 0.5)]
)
def test_lambda_rises_as_the_settings_say(rampup: str, half: float) -> None:
    method = make_method("tracoco", rampup=rampup, rampup_steps=100, unsupervised_weight=0.3)
    assert isinstance(method, TraCoCo)
    assert method.unsupervised_weight(50) == pytest.approx(0.3 * half, abs=1e-4)
    assert method.unsupervised_weight(500) == pytest.approx(0.3)


@pytest.mark.parametrize("loss", ["crc", "ce", "kl", "mse"])
def test_the_semi_supervised_loss_is_the_one_that_was_asked_for(loss: str) -> None:
    method = make_method("tracoco", semi_supervised=loss, cutmix=False, noise=0.0).eval()
    assert isinstance(method, TraCoCo)
    batch = make_batch()
    terms = method(batch, PAST_THE_RAMP).terms
    assert set(terms) == {"supervised", loss, "translation", "entropy"}
    crops, valid = batch.first.values[2:], batch.first.valid[2:]
    logits = [network(crops) for network in method.networks]
    peers = [own.softmax(dim=1) for own in logits]
    rivals: dict[str, PeerLoss] = {
        "crc": partial(crc_loss, gamma=0.65, beta=0.1),
        "ce": ce_loss,
        "kl": kl_loss,
        "mse": mse_loss,
    }
    expected = rivals[loss](logits[0], peers[1], valid) + rivals[loss](logits[1], peers[0], valid)
    torch.testing.assert_close(terms[loss], expected)


def test_without_translation_the_second_crops_are_not_looked_at() -> None:
    method = make_method("tracoco", translation=False, rampup_steps=1)
    batch = make_batch()
    spoilt = replace(batch.second, values=torch.full_like(batch.second.values, torch.nan))
    terms = method(replace(batch, second=spoilt), PAST_THE_RAMP).terms
    assert set(terms) == {"supervised", "crc"}
    assert all(term.isfinite() for term in terms.values())


def crops_seen(network: nn.Module) -> list[int]:
    """How many crops each pass of a network has from now on."""
    counts: list[int] = []
    network.register_forward_hook(lambda _, crops, __: counts.append(len(crops[0])))
    return counts


@pytest.mark.parametrize("name", ["tracoco", "cps"])
def test_while_unlabelled_crops_do_not_count_only_their_pseudo_labels_are_made(name: str) -> None:
    method = make_method(name, noise=0.0, cutmix=False).eval()
    assert isinstance(method, CoTraining)
    batch = make_batch()
    whole = method(batch, PAST_THE_RAMP)
    spoilt = replace(batch.second, values=torch.full_like(batch.second.values, torch.nan))
    learning = [crops_seen(network) for network in method.networks]
    judged = [crops_seen(average) for average in method.averages]
    alone = method(replace(batch, second=spoilt, unlabelled_counts=False), PAST_THE_RAMP)
    assert set(alone.terms) == {"supervised"}
    torch.testing.assert_close(alone.terms["supervised"], whole.terms["supervised"])
    torch.testing.assert_close(alone.pseudo_labels, whole.pseudo_labels)
    labelled, unlabelled = batch.labelled_count, len(batch.cases) - batch.labelled_count
    assert learning == [[labelled]] * 2
    assert judged == [[unlabelled]] * 2


def test_pseudo_labels_of_the_training_pass_need_all_crops_at_any_time() -> None:
    method = make_method("tracoco", pseudo_labels="training")
    assert isinstance(method, CoTraining)
    batch = make_batch()
    counts = crops_seen(method.networks[0])
    output = method(replace(batch, unlabelled_counts=False), PAST_THE_RAMP)
    assert counts == [len(batch.cases)]
    assert set(output.terms) == {"supervised"}
    assert len(output.pseudo_labels[0]) == len(batch.cases) - batch.labelled_count


def test_a_stopped_gradient_teaches_another_step_by_the_same_loss() -> None:
    def step(**settings: bool) -> tuple[float, Tensor]:
        torch.manual_seed(0)
        method = make_method("tracoco", **settings)
        term = method(make_batch(), PAST_THE_RAMP).terms["translation"]
        weights = next(iter(method.trained_networks()[0].parameters()))
        return term.item(), torch.autograd.grad(term, weights)[0]

    (loss, gradient), (same_loss, stopped) = step(), step(stop_gradient=True)
    assert loss == pytest.approx(same_loss)
    assert not torch.allclose(gradient, stopped, rtol=0.01)


def test_cps_is_tracoco_with_cross_entropy_and_without_translation() -> None:
    batch, outcomes = make_batch(), []
    for method in (
        make_method("cps", rampup_steps=1),
        make_method("tracoco", rampup_steps=1, semi_supervised="ce", translation=False),
    ):
        torch.manual_seed(3)
        outcomes.append({name: term.item() for name, term in method(batch, 5).terms.items()})
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("pseudo_labels", ["batch", "clean", "training"])
def test_no_gradient_passes_through_a_pseudo_label(pseudo_labels: str) -> None:
    method = make_method("tracoco", pseudo_labels=pseudo_labels)
    assert isinstance(method, TraCoCo)
    output = method(make_batch(), PAST_THE_RAMP)
    assert len(output.pseudo_labels) == 2
    assert not any(peer.requires_grad for peer in output.pseudo_labels)


def test_labels_teach_both_networks() -> None:
    method = make_method("tracoco")
    method(make_batch(), 0).terms["supervised"].backward()
    for network in method.trained_networks():
        assert all(p.grad is not None for p in network.parameters())
        assert any(p.grad.any() for p in network.parameters() if p.grad is not None)


def test_the_supervised_term_follows_the_labels() -> None:
    method = make_method("tracoco")
    batch = make_batch()

    def supervised(labels: torch.Tensor) -> float:
        torch.manual_seed(0)
        return float(method(replace(batch, labels=labels), 0).terms["supervised"].item())

    assert supervised(batch.labels) != supervised(1 - batch.labels)


class Recorder(nn.Module):
    """A network of one convolution that notes in which mode and with what input it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv3d(1, 2, 1)
        self.norm: nn.Module = nn.BatchNorm3d(2)
        self.calls: list[tuple[bool, torch.Tensor]] = []

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        self.calls.append((self.training, crops.detach().clone()))
        normed: torch.Tensor = self.norm(self.convolution(crops))
        return normed


@pytest.mark.parametrize(
    ("norm", "settings", "first_pass"),
    [
        (nn.InstanceNorm3d, {}, 2),  # mixed and clean passes see the unlabelled crops
        (nn.BatchNorm3d, {}, 4),  # its statistics are those of all crops
        (nn.BatchNorm3d, {"pseudo_labels": "batch"}, 4),
        (nn.InstanceNorm3d, {"pseudo_labels": "training"}, 4),
        (nn.InstanceNorm3d, {"cutmix": False}, 4),
    ],
)
def test_unlabelled_crops_skip_a_first_pass_that_nobody_looks_at(
    norm: Callable[[int], nn.Module], settings: dict[str, object], first_pass: int
) -> None:
    for name, more in (("cps", settings), ("tracoco", settings | {"translation": False})):
        method = make_method(name, 3, 2, 30, 2, **more)
        assert isinstance(method, CoTraining)
        recorder = Recorder()
        recorder.norm = norm(2)
        method.networks[0] = recorder
        method(make_batch(), 5)
        assert len(recorder.calls[0][1]) == first_pass


def recorded(**settings: object) -> tuple[TraCoCo, Recorder]:
    method = make_method("tracoco", 3, 2, 30, 2, **settings)
    assert isinstance(method, TraCoCo)
    recorder = Recorder()
    method.networks[0] = recorder
    return method, recorder


def test_clean_pseudo_labels_see_the_unlabelled_crops_as_they_are_in_evaluation_mode() -> None:
    method, recorder = recorded(noise=0.2, pseudo_labels="clean")
    batch = make_batch()
    method(batch, 5)
    modes = [training for training, _ in recorder.calls]
    assert modes == [True, True, False, True]
    assert torch.equal(recorder.calls[2][1], batch.first.values[2:])
    for training, crops in recorder.calls:
        if training:
            assert not torch.equal(crops[:2], batch.first.values[: len(crops)][:2])
    assert recorder.training


class Normed(nn.Module):
    """A network whose BatchNorm has running statistics far from those of any crop."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm3d(1, affine=False)
        self.norm.get_buffer("running_mean").fill_(10.0)
        self.head = threshold()

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(self.dropout(crops)) + 0.5)
        return logits


@pytest.mark.parametrize("name", ["tracoco", "cps", "cac-co"])
@pytest.mark.parametrize("form", ["batch", "clean"])
def test_pseudo_labels_go_by_the_statistics_that_are_asked_for(name: str, form: str) -> None:
    method = make_method(name, 3, 2, 30, 2, pseudo_labels=form)
    assert isinstance(method, CoTraining)
    method.networks[0], method.networks[1] = Normed(), Normed()
    batch, running = make_batch(), 10.0
    peers = method.pseudo_labels(batch, [])
    crops = batch.first.values
    # By hand: bright is what lies above the mean of the whole batch, labelled crops included, or
    # above the running mean, which nothing reaches.
    bright = crops[2:, 0] > (crops.mean() if form == "batch" else running)
    assert 0.3 < float(bright.float().mean()) < 0.7 or form == "clean"
    for peer in peers:
        assert torch.equal(peer.argmax(dim=1) == 1, bright)
    for network in method.networks:
        assert network.get_buffer("norm.running_mean").item() == running
        assert network.get_buffer("norm.num_batches_tracked").item() == 0
        assert all(part.training for part in network.modules())


def test_batch_statistics_change_nothing_without_batchnorm() -> None:
    outcomes = []
    for form in ("batch", "clean"):
        method = make_method("tracoco", 3, 2, 30, 2, pseudo_labels=form)
        torch.manual_seed(3)
        outcomes.append({key: term.item() for key, term in method(make_batch(), 20).terms.items()})
    assert outcomes[0] == outcomes[1]


def test_training_pseudo_labels_cost_no_pass() -> None:
    method, recorder = recorded(pseudo_labels="training", cutmix=False)
    method(make_batch(), 5)
    assert [training for training, _ in recorder.calls] == [True, True]


def test_only_the_first_crops_move_the_running_statistics() -> None:
    method, recorder = recorded(noise=0.0)
    batch = make_batch()
    method(batch, 5)
    with torch.no_grad():
        features = recorder.convolution(batch.first.values)
    expected = 0.1 * features.mean(dim=(0, 2, 3, 4))
    torch.testing.assert_close(recorder.norm.running_mean, expected)


def threshold() -> nn.Conv3d:
    """A network that is sure of class 1 wherever a voxel is bright, whatever surrounds it."""
    network = nn.Conv3d(1, 2, kernel_size=1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([-20.0, 20.0]).reshape(2, 1, 1, 1, 1))
        network.bias.copy_(torch.tensor([10.0, -10.0]))  # type: ignore[union-attr]  # it has one
    return network


def test_crops_and_pseudo_labels_are_mixed_alike() -> None:
    # One unlabelled crop is dark and one bright. Mixed alike, each network finds in a mixed crop
    # just what its peer's mixed pseudo-label says; with only one of the two mixed it would not.
    method = make_method("tracoco", noise=0.0, pseudo_labels="clean")
    assert isinstance(method, TraCoCo)
    method.networks[0], method.networks[1] = threshold(), threshold()
    batch = make_batch()
    batch.first.values[2], batch.first.values[3] = 0.0, 1.0
    assert method(batch, PAST_THE_RAMP).terms["crc"].item() < 1e-3


def test_health_of_pseudo_labels_by_hand() -> None:
    method = make_method("tracoco")
    assert isinstance(method, TraCoCo)
    batch = make_batch(dimensions=2)
    # Network 1 is sure of background everywhere, network 2 leans to class 1 in a quarter of it.
    size = batch.first.valid.shape[1:]
    first = torch.stack([torch.full((2, *size), 0.95), torch.full((2, *size), 0.05)], dim=1)
    second = torch.stack([torch.full((2, *size), 0.7), torch.full((2, *size), 0.3)], dim=1)
    second[:, 0, :8, :8] = 0.4
    second[:, 1, :8, :8] = 0.6
    health = method.health(StepOutput({}, (first, second)), batch)
    assert measured(health) == pytest.approx(
        {
            "class/0": 0.875,
            "class/1": 0.125,
            "likely": 0.875,
            "unlikely": 0.25,
            "agreement": 0.75,
            # |.95 - .7| in 192 pixels and |.95 - .4| in 64.
            "distance": 0.25 * 192 + 0.55 * 64,
            "common/1": 0.0,
            "marked/1": 0.125,
        }
    )


def test_without_cutmix_is_the_first_thing_to_try_when_a_structure_fades() -> None:
    assert make_method("tracoco").advice.startswith("leave CutMix out with `--set method.cutmix=")
    plain = make_method("tracoco", cutmix=False).advice
    assert plain == make_method("mean-teacher").advice
    assert "`tracoco methods NAME`" in plain


def test_cutmix_with_one_unlabelled_crop_is_a_clear_error() -> None:
    with pytest.raises(UserError, match="CutMix"):
        make_method("tracoco", 3, 2, 30, 1)
    make_method("tracoco", 3, 2, 30, 1, cutmix=False)(make_batch(unlabelled=1), 5)


def test_the_negative_gate_is_a_setting() -> None:
    terms = {}
    for gate in ("class", "minimum"):
        method = make_method("tracoco", 2, 4, negative_gate=gate)
        torch.manual_seed(1)
        terms[gate] = method(make_batch(2, 4), PAST_THE_RAMP).terms["crc"].item()
    assert terms["class"] < terms["minimum"]


@pytest.mark.parametrize("name", ["tracoco", "cps", "cac-co"])
def test_averaged_pseudo_labels_are_those_of_the_moving_averages(name: str) -> None:
    method = make_method(name, pseudo_labels="averaged", average_decay=0.75)
    assert isinstance(method, CoTraining)
    batch = make_batch()
    with torch.no_grad():
        for network in method.networks:
            for weight in network.parameters():
                weight.add_(0.1)
    before = [weight.clone() for weight in method.averages.parameters()]
    method.after_step(StepOutput({}), make_batch(2), 1000)
    moved = list(method.averages.parameters())
    learnt = list(method.networks.parameters())
    for old, new, current in zip(before, moved, learnt, strict=True):
        torch.testing.assert_close(new, 0.75 * old + 0.25 * current)
    output = method(batch, 20)
    crops = batch.first.values[batch.labelled_count :]
    with torch.no_grad():
        expected = [average.eval()(crops) for average in method.averages]
    for labels, prediction in zip(output.pseudo_labels[:2], expected, strict=True):
        torch.testing.assert_close(labels, prediction)
        assert not labels.requires_grad
    assert not any(weight.requires_grad for weight in method.averages.parameters())
