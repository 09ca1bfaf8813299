"""What is asked of every method, one function a question; each raises `AssertionError`.

The functions take the method under test, the dimensions of its crops and the number of classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from tracoco.data.batch import Batch
from tracoco.errors import first_line
from tracoco.methods import MethodRow
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import Method
from tracoco.testing.contract_checks import (
    check_features,
    check_fewest_crops,
    check_padding,
    check_undrawn,
)
from tracoco.testing.steps import after_steps, differing, loss_of, take_step
from tracoco.testing.subject import STEPS, Subject, without_labelled_voxels
from tracoco.training.acceleration import computes
from tracoco.training.contract import check_modules, checked_terms

PAST_THE_RAMP = 1000
RESUMED_STEPS = (0, 3, 60, 124, 125, 180, 184)
"""Of a run of 30 that goes on: the first, one past a short first stage, and those past all ramps,
before and after the method is saved."""
SAVED_AT = 125


def require(condition: object, problem: str) -> None:
    """What `assert` does, also where Python is told to leave assertions out."""
    if not condition:
        raise AssertionError(problem)


def check_gradients(subject: Subject, dimensions: int, classes: int) -> None:
    """Unlabelled crops teach the modules that the row names, and no others."""
    method = subject.make(dimensions, classes)
    taught = subject.row.trained_by_unlabelled
    check_modules(subject.name, subject.row, method)
    _sharpen(method)  # some methods teach only where a network is sure, and fresh ones are not
    batch = subject.batch(dimensions, classes)
    # Prototypes and banks come from labelled voxels that were seen before.
    others = tuple(f"{case} of another step" for case in batch.cases)
    method(replace(batch, cases=others), PAST_THE_RAMP)
    output = method(without_labelled_voxels(batch), PAST_THE_RAMP)
    loss_of(checked_terms(subject.name, output)).backward()
    for module in taught:
        parameters = dict(method.get_submodule(module).named_parameters())
        alone = [name for name, parameter in parameters.items() if parameter.grad is None]
        require(not alone, f"{module}.{next(iter(alone), '')} is connected to no loss term")
        total = sum(float(p.grad.abs().sum()) for p in parameters.values() if p.grad is not None)
        require(total > 0, f"unlabelled crops teach {module} nothing")
    for name, parameter in method.named_parameters():
        if not name.startswith(tuple(f"{module}." for module in taught)):
            gone = parameter.grad is None or not parameter.grad.any()
            require(gone, f"unlabelled crops teach {name}, which the row does not name")


def _sharpen(method: Method) -> None:
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            if name.endswith("head.weight"):
                parameter.mul_(20)


def check_steps(subject: Subject, dimensions: int, classes: int) -> None:
    """A step is taken, and every term is finite and connected before and after it."""
    method = subject.make(dimensions, classes)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.01)
    batch = subject.batch(dimensions, classes)
    first = take_step(method, optimizer, batch, 0).terms
    for when, terms in (("at first", first), ("after a step", method(batch, 1).terms)):
        for name, term in terms.items():
            told = f"loss term '{name}' is {term.item()} {when}"
            require(term.isfinite(), told)
            require(term.requires_grad, f"{told} and connected to nothing")
            require(term.dtype == torch.float32, f"{told}, of {term.dtype} and not float32")


def check_teacher(subject: Subject, dimensions: int, classes: int) -> None:
    """No gradient reaches a teacher."""
    method = subject.make(dimensions, classes)
    loss_of(method(subject.batch(dimensions, classes), PAST_THE_RAMP).terms).backward()
    for name, parameter in method.named_parameters():
        require("teacher" not in name or parameter.grad is None, f"{name} has a gradient")


def check_prediction(subject: Subject, dimensions: int, classes: int) -> None:
    """Predictions are the probabilities of the inference network."""
    method = subject.make(dimensions, classes).eval()
    size = (16,) * dimensions
    crops = torch.rand(2, 1, *size)
    with torch.no_grad():
        probability = method.predict(crops)
        members = method.predict_members(crops)
        logits = method.inference_network()(crops)
    shape = list(probability.shape)
    require(shape == [2, classes, *size], f"predict gives the shape {shape} for 2 crops of {size}")
    close = partial(torch.testing.assert_close, rtol=1.3e-6, atol=1e-5)
    close(probability, logits.softmax(dim=1))
    close(probability.sum(dim=1), torch.ones(2, *size))
    close(members[0], probability)


def check_resume(subject: Subject, dimensions: int, classes: int) -> None:
    """Saved, loaded and gone on, a method is bitwise the one that was never saved."""
    make = partial(subject.make, dimensions, classes)

    def batch_of(seed: int) -> Batch:
        return subject.batch(dimensions, classes, seed=seed)

    whole, resumed = (
        after_steps(make, RESUMED_STEPS, saved_at, batch_of=batch_of).state_dict()
        for saved_at in (None, SAVED_AT)
    )
    changed = differing(whole, resumed)
    require(not changed, f"{', '.join(changed[:3])} differ from a run that was not interrupted")


def check_optimizer(subject: Subject, dimensions: int, classes: int) -> None:
    """The optimizer owns every trainable parameter once."""
    method = subject.make(dimensions, classes)
    owned = [id(p) for group in method.parameter_groups() for p in group["params"]]
    for name, parameter in method.named_parameters():
        times, wanted = owned.count(id(parameter)), int(parameter.requires_grad)
        require(times == wanted, f"parameter_groups has {name} {times} times, not {wanted}")


def check_autocast(subject: Subject, dimensions: int, classes: int) -> None:
    """In half precision the terms are float32, and gradients finite."""
    method = subject.make(dimensions, classes)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        terms = method(subject.batch(dimensions, classes), PAST_THE_RAMP).terms
    for name, term in terms.items():
        require(term.dtype == torch.float32, f"loss term '{name}' is of {term.dtype}, not float32")
        require(term.isfinite(), f"loss term '{name}' is {term.item()}")
    loss_of(terms).backward()
    if computes(torch.bfloat16, torch.device("cpu")):  # some CPUs leave small gradients unwritten
        for name, parameter in method.named_parameters():
            finite = parameter.grad is None or parameter.grad.isfinite().all()
            require(finite, f"the gradient of {name} is not finite")


def check_learning(subject: Subject, dimensions: int, classes: int) -> None:
    """A few steps lower the terms that come from labels."""
    fields = subject.method.Config.model_fields
    quiet: dict[str, Any] = {"noise": 0.0} if "noise" in fields else {}
    method = subject.make(dimensions, classes, **quiet)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1, momentum=0.9)
    batch = subject.batch(dimensions, classes)
    values = batch.first.values[: batch.labelled_count, 0]
    batch = replace(batch, labels=(values * classes).long().clamp(max=classes - 1))
    losses = []
    for _ in range(STEPS):
        torch.manual_seed(1)
        terms = method(batch, 0).terms
        labelled = {name: term for name, term in terms.items() if name in method.labelled_terms}
        require(
            labelled or not subject.row.segments,
            f"no term of {list(terms)} is in labelled_terms",
        )
        loss = loss_of(labelled or terms)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    told = f"{losses[0]:.3g} at first and {losses[-1]:.3g} after {STEPS} steps"
    require(losses[-1] < 0.8 * losses[0], f"the loss from labels is {told}")


def check_pairs(subject: Subject, dimensions: int, classes: int) -> None:
    """The row says whether second crops are looked at."""
    batch = subject.batch(dimensions, classes)
    second = batch.second
    empty = replace(second, values=second.values[..., :0], valid=second.valid[..., :0])
    unread = replace(batch, second=empty)
    torch.manual_seed(0)
    if subject.row.pairs:
        try:
            subject.make(dimensions, classes)(unread, PAST_THE_RAMP)
        except (RuntimeError, IndexError, ValueError):
            return
        raise AssertionError("the row has pairs=True, but second crops are not looked at")
    seen = subject.make(dimensions, classes)
    torch.manual_seed(0)
    expected = seen(batch, PAST_THE_RAMP).terms
    method = subject.make(dimensions, classes)
    torch.manual_seed(0)
    try:
        output = method(unread, PAST_THE_RAMP)
    except (RuntimeError, IndexError, ValueError) as error:
        raise AssertionError(
            f"it fails without second crops, but the row has pairs=False: {first_line(error)}"
        ) from error
    for name, term in output.terms.items():
        same = term.item() == expected[name].item()
        require(same, f"loss term '{name}' depends on second crops, but the row has pairs=False")
    health = method.health(output, unread)
    require(isinstance(health, PseudoLabelHealth), "health gives no PseudoLabelHealth")


def check_state(subject: Subject, dimensions: int, classes: int) -> None:
    """A step leaves nothing on the method but what a checkpoint has."""
    for step in (0, PAST_THE_RAMP):
        method, batch = subject.make(dimensions, classes), subject.batch(dimensions, classes)
        before = _unsaved(method)
        output = method(batch, step)
        method.health(output, batch)
        after = _unsaved(method)
        left = [name for name, value in after.items() if before.get(name) is not value]
        require(not left, f"forward changes {', '.join(left[:3])}, which no checkpoint has")
        require(after.keys() == before.keys(), "forward deletes an attribute")
        connected = any(tensor.requires_grad for tensor in output.pseudo_labels)
        require(not connected, "pseudo_labels of the StepOutput have a gradient")


def _unsaved(method: Method) -> dict[str, Any]:
    """What a method and its parts hold besides parameters, buffers and what is saved with them."""
    saved = ("_parameters", "_buffers", "_modules", "_cases")
    return {
        f"{name}.{key}".lstrip("."): value
        for name, part in method.named_modules()
        for key, value in vars(part).items()
        if key not in saved
    }


def check_health(subject: Subject, dimensions: int, classes: int) -> None:
    """Health is that of the step that it is given."""
    method, first = subject.make(dimensions, classes), subject.batch(dimensions, classes)
    output = method(first, PAST_THE_RAMP)
    before = method.health(output, first)
    method(subject.batch(dimensions, classes, seed=1), PAST_THE_RAMP)
    require(method.health(output, first) == before, "health changes with a later step")


@dataclass(frozen=True, slots=True)
class Check:
    """One question, and how it is asked of a method."""

    title: str
    run: Callable[[Subject, int, int], None]
    look_at: str
    """What to look at when it fails."""
    cases: tuple[tuple[int, int], ...] = ((2, 2),)
    """Dimensions and classes that it is asked with."""
    of_predictions: bool = False
    """Whether it is asked of methods that predict alone."""

    def cases_of(self, row: MethodRow) -> list[tuple[int, int]]:
        """Dimensions and classes that it is asked with of this method."""
        if self.of_predictions and not row.segments:
            return []
        able = row.dimensions
        fitting = [(d if d in able else able[0], classes) for d, classes in self.cases]
        return list(dict.fromkeys(fitting))


EVERYWHERE = ((2, 2), (2, 4), (3, 2), (3, 4))
CHECKS: dict[str, Check] = {
    "steps": Check(
        "every loss term is a finite scalar with a gradient",
        check_steps,
        "the formulas in forward",
        EVERYWHERE,
    ),
    "gradients": Check(
        "unlabelled crops teach the modules that the row names, and no others",
        check_gradients,
        "trained_by_unlabelled in the row, and detach() or no_grad() in forward",
        EVERYWHERE,
    ),
    "padding": Check(
        "padding does not count",
        check_padding,
        "losses that do not use batch.first.valid",
        ((2, 3),),
    ),
    "undrawn": Check(
        "voxels of labelled crops that nobody has drawn teach nothing by their label",
        check_undrawn,
        "supervised terms that do not use batch.first.valid",
        ((2, 4),),
    ),
    "pairs": Check(
        "the row says whether second crops are looked at", check_pairs, "pairs in the row"
    ),
    "fewest-crops": Check(
        "the smallest batch that the row allows is enough",
        check_fewest_crops,
        "needs in the row: Needs(labelled=..., unlabelled=..., even=...)",
        ((2, 3),),
    ),
    "features": Check(
        "the row says whether feature maps of the network are needed",
        check_features,
        "needs in the row: Needs(features=True), and with_features(build_network(), NAME)",
    ),
    "teacher": Check(
        "no gradient reaches a teacher", check_teacher, "torch.no_grad() around the teacher"
    ),
    "prediction": Check(
        "predictions are the probabilities of the inference network",
        check_prediction,
        "inference_network, predict and predict_members",
        ((3, 4),),
        of_predictions=True,
    ),
    "resume": Check(
        "a run that is saved and resumed is bitwise the one that was never interrupted",
        check_resume,
        "what the method remembers: it must be a sub-module, a buffer or extra state, and random "
        "numbers must come from torch's generator",
        ((2, 3),),
    ),
    "state": Check(
        "a step leaves nothing on the method but what a checkpoint has",
        check_state,
        "attributes that forward or health sets: use buffers, or the StepOutput",
    ),
    "optimizer": Check(
        "the optimizer owns every trainable parameter once",
        check_optimizer,
        "trained_networks and parameter_groups; teachers need requires_grad_(False)",
        ((3, 2),),
    ),
    "learning": Check(
        "a few steps lower the loss from labels", check_learning, "the supervised term"
    ),
    "half-precision": Check(
        "in half precision the terms are float32, and gradients finite",
        check_autocast,
        "losses of what a network predicts: take .float() of it first",
        ((3, 2),),
    ),
    "health": Check(
        "health is that of the step that it is given", check_health, "health: use the StepOutput"
    ),
}
"""All checks by name, in the order in which they are run."""
