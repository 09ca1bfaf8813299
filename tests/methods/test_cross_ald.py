import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor

from tracoco.losses.consistency import prediction_distance
from tracoco.methods import cross_ald
from tracoco.methods.cross_ald import CrossALD, Crossing, draw_crossing
from tracoco.methods.ss_net import SSNet

PAST_THE_RAMP = 1000
CPU = torch.device("cpu")


def make(dimensions: int = 3, classes: int = 2, **settings: object) -> CrossALD:
    method = make_method("cross-ald", dimensions, classes, 30, 2, **settings)
    assert isinstance(method, CrossALD)
    return method


def uncrossed(count: int, *_: object) -> Crossing:
    return Crossing(torch.arange(count).roll(1), torch.ones(count))


def test_a_mixture_by_hand() -> None:
    crossing = Crossing(torch.tensor([1, 0]), torch.tensor([0.75, 0.5]))
    values = torch.tensor([4.0, 8.0]).reshape(2, 1, 1)
    assert crossing(values).flatten().tolist() == [5.0, 6.0]


def test_no_crop_is_mixed_with_itself_and_shares_differ() -> None:
    torch.manual_seed(0)
    for _ in range(20):
        crossing = draw_crossing(3, 1.0, CPU)
        assert sorted(crossing.partner.tolist()) == [0, 1, 2]
        assert not (crossing.partner == torch.arange(3)).any()
        assert len(set(crossing.fraction.tolist())) == 3
        assert 0 <= crossing.fraction.min() <= crossing.fraction.max() <= 1


def test_alpha_says_how_even_mixtures_are() -> None:
    torch.manual_seed(0)
    even, uneven = (draw_crossing(1000, alpha, CPU).fraction.std() for alpha in (50.0, 0.1))
    assert even < 0.1
    assert uneven > 0.4


@pytest.mark.parametrize("dimensions", [2, 3])
def test_one_uncrossed_particle_is_ss_net(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_ald, "draw_crossing", uncrossed)
    method = make(dimensions, particles=1).eval()
    batch = make_batch(dimensions)
    crops, valid = batch.first.values, batch.first.valid
    prediction = method.network(crops).detach().softmax(dim=1)
    found = []
    for smoothness in (CrossALD.smoothness, SSNet.smoothness):
        torch.manual_seed(0)
        found.append(smoothness(method, crops, prediction, valid))
    for crossed, plain in zip(*found, strict=True):
        torch.testing.assert_close(crossed, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dimensions", "particles"), [(2, 4), (3, 2)])
def test_every_particle_is_as_far_as_the_radius_and_goes_its_own_way(
    dimensions: int, particles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_ald, "draw_crossing", uncrossed)
    method = make(dimensions, radius=0.1).eval()
    batch = make_batch(dimensions)
    crops, valid = batch.first.values, batch.first.valid.clone()
    valid[0, :8] = False
    prediction = method.network(crops).detach().softmax(dim=1)
    changes: list[Tensor] = []
    method.network.register_forward_pre_hook(lambda _, given: changes.append(given[0] - crops))
    method.smoothness(crops, prediction, valid)
    # One pass for the score of each, then one for each.
    assert len(changes) == 2 * particles
    expected = 0.1 * valid.flatten(1).sum(dim=1).sqrt()
    for change in changes[particles:]:
        norms = change.detach().flatten(1).norm(dim=1)
        torch.testing.assert_close(norms, expected, rtol=1e-3, atol=1e-4)
        assert not change[0, :, :8].any()
    first, second = (change[1].detach().flatten() for change in changes[particles:][:2])
    assert torch.cosine_similarity(first, second, dim=0) < 0.999


def test_the_mixed_answer_is_the_target_and_voxels_count_where_both_crops_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = Crossing(torch.tensor([1, 0]), torch.tensor([0.75, 0.5]))
    monkeypatch.setattr(cross_ald, "draw_crossing", lambda *_: given)
    seen = []

    def noted(moved: Tensor, target: Tensor, valid: Tensor) -> Tensor:
        seen.append((target, valid))
        return prediction_distance(moved, target, valid)

    monkeypatch.setattr(cross_ald, "prediction_distance", noted)
    method = make(2)
    batch = make_batch(2, labelled=1, unlabelled=1)
    valid = batch.first.valid.clone()
    valid[0, :8] = False
    prediction = method.network(batch.first.values).detach().softmax(dim=1)
    method.smoothness(batch.first.values, prediction, valid)
    assert len(seen) == 4
    for target, counted in seen:
        torch.testing.assert_close(target[0], 0.75 * prediction[0] + 0.25 * prediction[1])
        assert torch.equal(counted, valid[:1].expand(2, -1, -1))


@pytest.mark.parametrize("classes", [2, 4])
def test_the_smoothness_teaches_the_network_and_leaves_its_statistics_alone(classes: int) -> None:
    method = make(2, classes)
    method(make_batch(2, classes), PAST_THE_RAMP).terms["smoothness"].backward()
    assert all(p.grad is not None for p in method.network.parameters())
    assert any(p.grad is not None and p.grad.any() for p in method.network.parameters())
    assert all(weight.grad is None for weight in method.separation.parameters())
