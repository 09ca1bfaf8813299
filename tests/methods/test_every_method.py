"""What is asked of every row of the table of methods."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from half_precision import BF16_IS_RIGHT
from interrupted_runs import after_steps, differing, take_step
from samples import make_batch, make_method

from tracoco.data.batch import Batch
from tracoco.methods import METHODS, method_class
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import Method
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.runs.build import run_method

PAST_THE_RAMP = 1000
STEPS = (0, 3, 60, 124, 125, 180, 184)
"""Of a run of 30 that goes on: the first, the one at which `bcp` gets its teacher, and those past
all ramps at which `mc-caussl` and `bcp-caussl` search for the first and the second time."""
SAVED_AT = 125
TEACHING = [name for name in METHODS if METHODS[name].trained_by_unlabelled]
SEGMENTING = [name for name in METHODS if METHODS[name].segments]


def without_labelled_voxels(batch: Batch) -> Batch:
    """The same batch with the labelled crops declared padding: only unlabelled voxels teach."""
    crops = []
    for part in (batch.first, batch.second):
        valid = part.valid.clone()
        valid[: batch.labelled_count] = False
        crops.append(replace(part, valid=valid))
    return replace(batch, first=crops[0], second=crops[1])


def sharpen(method: Method) -> None:
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            if name.endswith("head.weight"):
                parameter.mul_(20)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_unlabelled_crops_teach_the_modules_that_the_row_names_and_no_others(
    name: str, dimensions: int, classes: int
) -> None:
    method = make_method(name, dimensions, classes)
    sharpen(method)  # some methods teach only where a network is sure, and fresh ones are not
    taught = METHODS[name].trained_by_unlabelled
    batch = make_batch(dimensions, classes)
    # Prototypes and banks come from labelled voxels that were seen before.
    method(replace(batch, cases=("a", "b", "c", "d")), PAST_THE_RAMP)
    terms = method(without_labelled_voxels(batch), PAST_THE_RAMP).terms
    torch.stack(list(terms.values())).sum().backward()
    for module in taught:
        for parameter_name, parameter in method.get_submodule(module).named_parameters():
            assert parameter.grad is not None, f"{name}: {module}.{parameter_name} is not connected"
        total = sum(
            p.grad.abs().sum()
            for p in method.get_submodule(module).parameters()
            if p.grad is not None
        )
        assert total > 0, f"{name}: unlabelled crops teach {module} nothing"
    for parameter_name, parameter in method.named_parameters():
        if not parameter_name.startswith(tuple(f"{module}." for module in taught)):
            gone = parameter.grad is None or not parameter.grad.any()
            assert gone, f"{name}: unlabelled crops teach {parameter_name}"


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_is_taken_and_every_term_is_finite_and_connected_before_and_after(
    name: str, dimensions: int, classes: int
) -> None:
    method = make_method(name, dimensions, classes)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.01)
    batch = make_batch(dimensions, classes)
    take_step(method, optimizer, batch, 0)
    terms = method(batch, 1).terms
    assert terms
    for term in terms.values():
        assert term.isfinite()
        assert term.requires_grad
        assert term.dtype == torch.float32


@pytest.mark.parametrize("name", METHODS)
def test_no_gradient_reaches_a_teacher(name: str) -> None:
    method = make_method(name, 2)
    torch.stack(list(method(make_batch(2), PAST_THE_RAMP).terms.values())).sum().backward()
    for parameter_name, parameter in method.named_parameters():
        if "teacher" in parameter_name:
            assert parameter.grad is None, parameter_name


@pytest.mark.parametrize("name", SEGMENTING)
def test_predictions_are_probabilities_of_the_inference_network(name: str) -> None:
    method = make_method(name, classes=4).eval()
    crops = torch.rand(2, 1, 16, 16, 16)
    with torch.no_grad():
        probability = method.predict(crops)
        members = method.predict_members(crops)
        logits = method.inference_network()(crops)
    torch.testing.assert_close(probability, logits.softmax(dim=1))
    torch.testing.assert_close(probability.sum(dim=1), torch.ones(2, 16, 16, 16))
    torch.testing.assert_close(members[0], probability)


@pytest.mark.parametrize("name", METHODS)
def test_saved_loaded_and_gone_on_a_method_is_bitwise_the_one_that_was_never_saved(
    name: str,
) -> None:
    make = partial(make_method, name, 2, classes=3)
    whole, resumed = (
        after_steps(make, STEPS, saved_at, classes=3).state_dict() for saved_at in (None, SAVED_AT)
    )
    assert differing(whole, resumed) == []


@pytest.mark.parametrize("name", METHODS)
def test_the_optimizer_owns_every_trainable_parameter_once(name: str) -> None:
    method = make_method(name)
    owned = [id(p) for group in method.parameter_groups() for p in group["params"]]
    assert sorted(owned) == sorted(id(p) for p in method.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", METHODS)
def test_under_autocast_the_terms_are_float32_and_gradients_finite(name: str) -> None:
    method = make_method(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        terms = method(make_batch(), PAST_THE_RAMP).terms
    assert all(term.dtype == torch.float32 and term.isfinite() for term in terms.values())
    torch.stack(list(terms.values())).sum().backward()
    if BF16_IS_RIGHT:
        assert all(p.grad is None or p.grad.isfinite().all() for p in method.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_a_few_steps_lower_the_loss(name: str) -> None:
    fields = method_class(name).Config.model_fields
    quiet: dict[str, Any] = {"noise": 0.0} if "noise" in fields else {}
    method = make_method(name, 2, **quiet)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1, momentum=0.9)
    batch = make_batch(2)
    batch = replace(batch, labels=(batch.first.values[:2, 0] > 0.5).long())
    losses = []
    for _ in range(30):
        torch.manual_seed(1)
        terms = method(batch, 0).terms
        loss = terms["supervised"] if name in SEGMENTING else torch.stack([*terms.values()]).sum()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", METHODS)
def test_a_row_says_whether_second_crops_are_looked_at(name: str) -> None:
    batch = make_batch(2)
    empty = replace(
        batch.second, values=batch.second.values[..., :0], valid=batch.second.valid[..., :0]
    )
    method = make_method(name, 2)
    torch.manual_seed(0)
    expected = method(batch, PAST_THE_RAMP).terms
    unread = replace(batch, second=empty)
    if METHODS[name].pairs:
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            method(unread, PAST_THE_RAMP)
        return
    method = make_method(name, 2)
    torch.manual_seed(0)
    output = method(unread, PAST_THE_RAMP)
    assert {key: term.item() for key, term in output.terms.items()} == {
        key: term.item() for key, term in expected.items()
    }
    assert isinstance(method.health(output, unread), PseudoLabelHealth)


def state(method: Method) -> dict[str, Any]:
    """What a method and its parts hold besides parameters, buffers and what is saved with them."""
    saved = ("_parameters", "_buffers", "_modules", "_cases")
    return {
        f"{name}.{key}": value
        for name, part in method.named_modules()
        for key, value in vars(part).items()
        if key not in saved
    }


@pytest.mark.parametrize("step", [0, PAST_THE_RAMP])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_leaves_nothing_on_the_method_but_what_a_checkpoint_has(
    name: str, step: int
) -> None:
    method, batch = make_method(name, 2), make_batch(2)
    before = state(method)
    output = method(batch, step)
    method.health(output, batch)
    after = state(method)
    assert after.keys() == before.keys()
    assert [key for key, value in before.items() if after[key] is not value] == []
    assert not any(tensor.requires_grad for tensor in output.pseudo_labels)


@pytest.mark.parametrize("name", TEACHING)
def test_health_is_of_the_step_that_it_is_given(name: str) -> None:
    method, first, second = make_method(name, 2), make_batch(2), make_batch(2, seed=1)
    output = method(first, PAST_THE_RAMP)
    before = method.health(output, first)
    method(second, PAST_THE_RAMP)
    assert method.health(output, first) == before


MIXING = {"bcp", "bcp-caussl", "caml", "ict", "sdcl", "unimatch"}
"""Methods whose labelled crops pass a network together with others: pasted into unlabelled ones,
compared with them, or in a batch of another size."""


@pytest.mark.parametrize("statistics", ["separate", "joint"])
@pytest.mark.parametrize(
    "name", [name for name in TEACHING if name in SEGMENTING and name not in MIXING]
)
def test_labels_do_not_move_what_a_network_makes_of_unlabelled_crops(
    name: str, statistics: str
) -> None:
    plan = Plan(
        dimensions=2,
        channels=1,
        label_values=(0, 1),
        class_names=("background", "organ"),
        slice_axis=2,
        spacing_mm=(1, 1, 1),
        crop=(1, 16, 16),
    )
    settings = [f"method.name={name}", f"network.statistics={statistics}", "network.filters=4"]
    method = run_method(load_config(None, settings), plan)
    batch = make_batch(2)
    batch.first.values.requires_grad_()
    terms = method(batch, 0).terms
    torch.stack([terms[key] for key in method.labelled_terms if key in terms]).sum().backward()
    gradient = batch.first.values.grad
    assert gradient is not None
    assert gradient[:2].abs().max() > 0
    if statistics == "separate":
        assert gradient[2:].abs().max() == 0
    elif name in ("tracoco", "cps"):
        assert gradient[2:].abs().max() > 0
