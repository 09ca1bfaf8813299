import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from tracoco.methods.parts.inner_optimizer import InnerOptimizer
from tracoco.runs.folder import load_checkpoint, save_checkpoint

GIVEN = torch.tensor([1.0, -2.0, 3.0])


def make() -> InnerOptimizer[nn.Linear]:
    torch.manual_seed(0)
    return InnerOptimizer(nn.Linear(3, 2), rate=0.1, betas=(0.9, 0.99))


def loss(part: nn.Linear) -> Tensor:
    prediction: Tensor = part(GIVEN)
    return prediction.square().sum()


def test_a_step_goes_down_and_leaves_no_gradient_behind() -> None:
    inner = make()
    before = loss(inner.part).item()
    inner.descend(loss)
    assert loss(inner.part).item() < before
    assert all(weight.grad is None for weight in inner.parameters())


def test_the_first_step_of_adam_moves_every_weight_by_its_rate() -> None:
    inner = make()
    before = inner.part.weight.clone()
    gradient = 2 * inner.part(GIVEN)[:, None] * GIVEN
    inner.descend(loss)
    torch.testing.assert_close(inner.part.weight.detach(), before - 0.1 * gradient.sign())


def test_outside_of_a_step_the_part_needs_no_gradient_but_lets_it_through() -> None:
    inner = make()
    inner.descend(loss)
    values = torch.ones(1, 3, requires_grad=True)
    inner.part(values).sum().backward()
    assert values.grad is not None
    assert not any(weight.requires_grad for weight in inner.parameters())


def test_loaded_from_a_checkpoint_it_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    inner, resumed, forgetful = make(), make(), make()
    for _ in range(3):
        inner.descend(loss)
    save_checkpoint(tmp_path / "last.pt", {"step": 0, "method": inner.state_dict()})
    resumed.load_state_dict(load_checkpoint(tmp_path / "last.pt")["method"])
    forgetful.part.load_state_dict(copy.deepcopy(inner.part.state_dict()))
    for each in (inner, resumed, forgetful):
        each.descend(loss)
    assert torch.equal(inner.part.weight, resumed.part.weight)
    assert not torch.equal(inner.part.weight, forgetful.part.weight)
