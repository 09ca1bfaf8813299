import copy

import pytest
import torch
from samples import make_batch, make_method

from tracoco.methods.bcp import BCP
from tracoco.methods.bcp_caussl import BCPCauSSL
from tracoco.methods.parts.independence import dependence, filters

PAST_THE_RAMP = 1000


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> BCPCauSSL:
    method = make_method("bcp-caussl", dimensions, classes, 100, 2, **settings)
    assert isinstance(method, BCPCauSSL)
    return method


def test_the_other_terms_are_those_of_bcp() -> None:
    method, plain = make(), make_method("bcp", 2, 2, 100)
    assert isinstance(plain, BCP)
    plain.load_state_dict(method.state_dict(), strict=False)
    for step in (0, 50):
        found = []
        for each in (method, plain):
            torch.manual_seed(0)
            found.append(
                {name: term.item() for name, term in each(make_batch(2), step).terms.items()}
            )
        assert found[0].pop("independence") == 0.0
        assert found[0] == found[1]


def test_independence_starts_120_steps_into_the_second_stage() -> None:
    method = make(inner_steps=1)
    batch = make_batch(2)
    first = 12 + 120
    for step in (first - 1, first):
        method.before_step(batch, step)
        explained = method(batch, step).terms["independence"].item()
        assert (explained > 0) == (step == first)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_term_is_the_students_dependence_on_the_teacher(dimensions: int, classes: int) -> None:
    method = make(dimensions, classes, independence_weight=2.0)
    with torch.no_grad():
        for weight in method.teacher.parameters():
            weight.normal_()
    layers = method.independence.combinations.part.layers
    kernels = filters(method.student), filters(method.teacher.network)
    expected = [
        dependence(own, others, layer) for own, others, layer in zip(*kernels, layers, strict=True)
    ]
    found = method(make_batch(dimensions, classes), PAST_THE_RAMP).terms["independence"]
    torch.testing.assert_close(found, 2 * torch.stack(expected).mean())


def test_the_student_learns_independence_and_the_teacher_has_no_gradient() -> None:
    method = make(inner_steps=1)
    method.before_step(make_batch(2), 12 + 120)
    with torch.no_grad():
        for weight in method.teacher.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    method(make_batch(2), PAST_THE_RAMP).terms["independence"].backward()
    kernels = [weight for weight in method.student.parameters() if weight.dim() > 1]
    assert all(weight.grad is not None and weight.grad.any() for weight in kernels)
    assert all(weight.grad is None for weight in method.teacher.parameters())
    owned = {id(p) for group in method.parameter_groups() for p in group["params"]}
    assert not owned & {id(p) for p in method.independence.parameters()}


def test_the_search_finds_the_teacher_that_the_student_is_a_copy_of() -> None:
    method = make(inner_steps=150)
    method.before_step(make_batch(2), 12 + 120)
    assert method.independence(method.pairs(), 12 + 120).item() > 0.9


def test_a_resumed_run_goes_on_alike() -> None:
    settings = {"every": 2, "inner_steps": 3}
    method, other = make(**settings), make(**settings)
    batch = make_batch(2)
    method.before_step(batch, 132)
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    found = []
    for each in (method, other):
        each.before_step(batch, 134)
        torch.manual_seed(0)
        found.append({name: term.item() for name, term in each(batch, 134).terms.items()})
    assert found[0] == found[1]
