import copy

import pytest
import torch
from torch import Tensor, nn

from tracoco.methods.parts.independence import Independence, IndependenceConfig, filters


def some_pairs() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return [
        (torch.randn(3, 20, requires_grad=True), torch.randn(6, 20, requires_grad=True)),
        (torch.randn(2, 9, requires_grad=True), torch.randn(2, 9, requires_grad=True)),
    ]


def make(first_step: int = 4, **settings: object) -> Independence:
    pairs = some_pairs()
    return Independence(pairs, IndependenceConfig(**settings), first_step)  # type: ignore[arg-type]  # any setting


def test_a_search_raises_the_dependence_and_leaves_filters_and_gradients_alone() -> None:
    independence, pairs = make(), some_pairs()
    before = independence(pairs, 4).item()
    for own, others in pairs:
        own.grad = torch.ones_like(own)
        others.grad = None
    copies = [(own.detach().clone(), others.detach().clone()) for own, others in pairs]
    independence.search(pairs, 4)
    assert independence(pairs, 4).item() > before + 0.05
    for (own, others), (old, old_others) in zip(pairs, copies, strict=True):
        assert torch.equal(own, old)
        assert torch.equal(others, old_others)
        assert own.grad is not None
        assert (own.grad == 1).all()
        assert others.grad is None


def test_the_search_comes_near_the_best_that_there_is() -> None:
    independence, pairs = make(inner_steps=400), some_pairs()
    independence.search(pairs, 4)
    best = []
    for own, others in pairs:  # the share of each filter that lies in the span of the others
        basis = torch.linalg.qr(others.detach().T).Q
        fractions = (own.detach() @ basis).square().sum(dim=1) / own.detach().square().sum(dim=1)
        best.append(fractions.mean())
    assert independence(pairs, 4).item() == pytest.approx(torch.stack(best).mean().item(), rel=0.02)


def test_searches_start_at_the_first_step_and_come_every_so_often() -> None:
    independence, pairs = make(first_step=4, every=3, inner_steps=1), some_pairs()
    moved = []
    for step in range(12):
        before = [each.detach().clone() for each in independence.parameters()]
        independence.search(pairs, step)
        after = independence.parameters()
        if any(not torch.equal(old, new) for old, new in zip(before, after, strict=True)):
            moved.append(step)
    assert moved == [4, 7, 10]


def test_before_the_first_search_the_term_is_there_and_zero() -> None:
    independence, pairs = make(first_step=4), some_pairs()
    assert independence(pairs, 3).item() == 0.0
    assert independence(pairs, 3).requires_grad
    assert independence(pairs, 4).item() > 0.0


def test_only_the_own_filters_learn() -> None:
    independence, pairs = make(), some_pairs()
    independence(pairs, 4).backward()
    for own, others in pairs:
        assert own.grad is not None
        assert own.grad.any()
        assert others.grad is None
    assert not any(each.requires_grad for each in independence.parameters())
    assert all(each.grad is None for each in independence.parameters())


def test_a_step_down_makes_filters_less_explicable() -> None:
    independence, pairs = make(), some_pairs()
    independence.search(pairs, 4)
    before = independence(pairs, 4)
    before.backward()
    with torch.no_grad():
        for own, _ in pairs:
            assert own.grad is not None
            own.sub_(own.grad)
    assert independence(pairs, 4) < before


def test_a_resumed_search_goes_on_bitwise() -> None:
    independence, other, pairs = make(), make(), some_pairs()
    independence.search(pairs, 4)
    other.load_state_dict(copy.deepcopy(independence.state_dict()))
    for each in (independence, other):
        each.search(pairs, 64)
    assert torch.equal(independence(pairs, 64), other(pairs, 64))
    forgetful = make()
    state = {k: v for k, v in independence.state_dict().items() if "extra" not in k}
    forgetful.load_state_dict(state, strict=False)
    for each in (independence, forgetful):
        each.search(pairs, 124)
    assert not torch.equal(independence(pairs, 124), forgetful(pairs, 124))


def test_filters_are_rows_and_layers_that_double_the_resolution_have_none() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ConvTranspose2d(5, 4, 2), nn.BatchNorm2d(4), nn.Linear(4, 2)
    )
    found = filters(module, nn.Conv3d(1, 2, 3))
    assert [tuple(each.shape) for each in found] == [(5, 27), (2, 4), (2, 27)]
    assert found[0].requires_grad
