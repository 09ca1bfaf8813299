import copy
import math

import pytest
import torch
from samples import make_batch, make_method, measured

from tracoco.losses.supervised import supervised_loss
from tracoco.methods import dcnet
from tracoco.methods.dcnet import DCNet, attend
from tracoco.networks import build_network
from tracoco.networks.network import with_features

PAST_THE_RAMP = 1000


def make(dimensions: int = 3, classes: int = 2, steps: int = 30, **settings: object) -> DCNet:
    method = make_method("dcnet", dimensions, classes, steps, 2, **settings)
    assert isinstance(method, DCNet)
    return method


def tell(method: DCNet, first: tuple[float, ...], second: tuple[float, ...]) -> None:
    """Let each decoder give every voxel the same probabilities."""
    with torch.no_grad():
        for branch, told in zip(method.decoders.branches, (first, second), strict=True):
            weight, bias = branch.head.parameters()
            weight.zero_()
            bias.copy_(torch.tensor(told).log())


def test_the_threshold_by_hand() -> None:
    method = make(classes=4, steps=10)
    assert method.threshold.item() == 0.25
    method.move_threshold(torch.tensor(0.8), 0)
    assert method.threshold.item() == pytest.approx(0.9 * 0.25 + 0.1 * 0.8)
    method.move_threshold(torch.tensor(0.99), 9)
    assert method.threshold.item() == pytest.approx(0.95)
    method.move_threshold(torch.tensor(0.1), PAST_THE_RAMP)
    assert method.threshold.item() == 0.25


def test_the_threshold_follows_the_less_sure_decoder() -> None:
    method = make(steps=10)
    tell(method, (0.9, 0.1), (0.2, 0.8))
    method(make_batch(), 0)
    assert method.threshold.item() == pytest.approx(0.9 * 0.5 + 0.1 * 0.8)


@pytest.mark.parametrize(
    ("dimensions", "step", "ramp"),
    [(3, 0, math.exp(-5)), (3, 12, 1.0), (2, 15, math.exp(-1.25)), (2, 30, 1.0)],
)
def test_unsure_voxels_by_hand_and_their_ramp(dimensions: int, step: int, ramp: float) -> None:
    method = make(dimensions, temperature=1.0)
    tell(method, (0.6, 0.4), (0.5, 0.5))
    method.threshold.fill_(0.7)
    method.move_threshold = lambda *_: None  # type: ignore[method-assign] # held
    terms = method(make_batch(dimensions), step).terms
    assert terms["unsure"].item() == pytest.approx(0.1 * ramp * 1000 * 0.01, rel=1e-4)
    assert terms["labels"].item() == 0.0


def test_sure_voxels_have_labels_by_hand() -> None:
    method = make()
    tell(method, (0.9, 0.1), (0.8, 0.2))
    terms = method(make_batch(), 0).terms
    assert terms["labels"].item() == pytest.approx(0.3 * -math.log(0.72), rel=1e-4)


def test_decoders_that_are_sure_on_the_whole_teach_each_other_everywhere() -> None:
    method = make()
    tell(method, (0.97, 0.03), (0.03, 0.97))
    terms = method(make_batch(), 0).terms
    assert terms["labels"].item() == pytest.approx(0.3 * -2 * math.log(0.03), rel=1e-3)


def test_attention_has_what_unsure_voxels_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcnet, "attend", lambda *_: torch.tensor(0.002))
    method = make()
    assert method(make_batch(), 0).terms["attention"].item() == pytest.approx(
        2.0 * (1 - 0.1 * math.exp(-5))
    )
    assert method(make_batch(), 12).terms["attention"].item() == pytest.approx(2.0 * 0.9)


def test_attention_teaches_the_encoder_alone() -> None:
    method = make()
    method(make_batch(), 0).terms["attention"].backward()
    taught = {
        name.rsplit(".stages", 1)[0]
        for name, weight in method.named_parameters()
        if weight.grad is not None and weight.grad.any()
    }
    assert taught == {"decoders.first.encoder"}


@pytest.mark.parametrize("name", ["unet", "transunet"])
def test_levels_of_one_size_are_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build_network(name, channels=1, classes=2, dimensions=2, filters=4)
    network = with_features(built, "dcnet").eval()
    sizes = []

    def note(learner: torch.Tensor, guide: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        sizes.append((tuple(learner.shape[2:]), tuple(guide.shape[2:])))
        return torch.tensor(1.0)

    monkeypatch.setattr(dcnet, "attention_loss", note)
    with torch.no_grad():
        features = network.encode(torch.rand(1, 1, 32, 32))
        total = attend(features, network.decode_levels(features), torch.ones(1, 32, 32))
    assert all(learner == guide for learner, guide in sizes)
    assert total.item() == len(sizes) == {"unet": 4, "transunet": 3}[name]


def test_the_supervised_losses_of_the_decoders_are_added() -> None:
    method, batch = make(), make_batch()
    tell(method, (0.6, 0.4), (0.6, 0.4))
    logits = torch.tensor([0.6, 0.4]).log().reshape(1, 2, 1, 1, 1).expand(2, 2, 16, 16, 16)
    alone = supervised_loss(logits, batch.labels, batch.first.valid[:2]).item()
    assert method(batch, 0).terms["supervised"].item() == pytest.approx(2 * alone, rel=1e-5)


def test_padding_changes_nothing() -> None:
    def terms(value: float) -> dict[str, float]:
        method, batch = make(2, 4), make_batch(2, 4)
        valid = batch.first.valid
        valid[:, 8:] = False
        for number, branch in enumerate(method.decoders.branches):
            other = value * (number - 0.5) * torch.arange(4.0).reshape(1, 4, 1, 1)
            branch.head.register_forward_hook(
                lambda _, __, logits, other=other: torch.where(valid.unsqueeze(1), logits, other)
            )
        found = {name: term.item() for name, term in method(batch, 20).terms.items()}
        return found | {"threshold": method.threshold.item()}

    assert terms(0.0) == terms(9.0)


def test_a_saved_threshold_goes_on_alike() -> None:
    def step(method: DCNet, number: int) -> tuple[dict[str, float], float]:
        torch.manual_seed(number)
        terms = method(make_batch(seed=number), number).terms
        return {name: term.item() for name, term in terms.items()}, method.threshold.item()

    method = make()
    for number in range(3):
        step(method, number)
    saved = copy.deepcopy(method.state_dict())
    expected = step(method, 3)
    resumed = make()
    resumed.load_state_dict(saved)
    assert step(resumed, 3) == expected
    assert step(make(), 3) != expected


def test_the_first_decoder_predicts_and_is_the_interpolating_one() -> None:
    method = make(2)
    assert method.inference_network() is method.decoders.first
    kinds = [
        any(isinstance(part, torch.nn.ConvTranspose2d) for part in branch.decoder.modules())
        for branch in method.decoders.branches
    ]
    assert kinds == [False, True]


def test_health_tells_how_far_the_decoders_agree() -> None:
    method = make()
    batch = make_batch()
    tell(method, (0.25, 0.75), (0.75, 0.25))
    output = method(batch, 0)
    assert measured(method.health(output, batch)) == pytest.approx(
        {"class/0": 0.0, "class/1": 1.0, "agreement": 0.0, "distance": 0.5 * 4096}
    )


def test_attention_is_guided_by_the_second_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make(2)
    made: list[list[torch.Tensor]] = []
    guides: list[list[torch.Tensor]] = []
    for branch in method.decoders.branches:
        branch.decoder.register_forward_hook(lambda _, __, levels: made.append(levels))

    def note(_: object, levels: list[torch.Tensor], __: object) -> torch.Tensor:
        guides.append(levels)
        return torch.zeros(())

    monkeypatch.setattr(dcnet, "attend", note)
    method(make_batch(2), 0)
    assert guides[0] is made[1]
