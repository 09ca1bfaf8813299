"""What a run asks of its method: before the first step by its row, and at each step by its terms.

Every mistake is an error that names the method, and the loss term or the module that is wrong.
"""

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tracoco.config import Config, DataConfig
from tracoco.data.batch import Batch
from tracoco.errors import UserError, did_you_mean, first_line
from tracoco.methods import METHODS, SHIPPED, MethodRow, Needs, method_row
from tracoco.methods.method import Method, StepOutput
from tracoco.networks import NETWORKS, PREFIX
from tracoco.project.plan import FOR_IMPORTED, Plan
from tracoco.project.planner import BatchSizes
from tracoco.project.splits import Splits
from tracoco.settings import MethodChoice


def check_cases(config: Config, splits: Splits, source: Path, *, unlabelled: int) -> None:
    """Refuse settings that need cases which the split does not have.

    Args:
        config: of the run.
        splits: of the project, less the labels that the settings hide.
        source: its file.
        unlabelled: cases without a label, or with one that is not drawn everywhere.
    """
    name = config.method.name
    trained_by_unlabelled = method_row(name).trained_by_unlabelled
    if trained_by_unlabelled and not (unlabelled or config.data.reuse_labelled):
        raise UserError(
            f"{source} has no unlabelled cases, which '{name}' learns from; add scans without "
            "labels, hide some with data.labelled=N, set data.reuse_labelled to true, or use "
            "--method supervised"
        )
    if trained_by_unlabelled and not config.data.batch[1]:
        raise UserError(
            f"data.unlabelled_batch is 0, but '{name}' learns from unlabelled crops; "
            "set it to 2, or use --method supervised"
        )
    if config.training.select_on == "test" and not splits.test:
        raise UserError(
            f"{source} has no test cases, which training.select_on=test chooses on; "
            "leave it out, or keep test cases with `tracoco init --test N`"
        )


def check_slices(config: Config, plan: Plan) -> None:
    """Refuse to sample slices where networks see volumes."""
    if plan.dimensions == 3 and config.data.slice_sampling == "uniform":
        raise UserError(
            "data.slice_sampling=uniform is for 2D projects, and networks see volumes here; "
            "leave it out"
        )


def check_plan(plan: Plan, source: Path) -> None:
    """Refuse what only imported networks are for: trainings expect normalised intensities."""
    changed = [name for name in FOR_IMPORTED if name not in plan.as_always]
    if changed:
        raise UserError(
            f"{source} sets {' and '.join(changed)}, which is for imported networks and not for "
            "training; take it out, and prepare the project again"
        )


def batch_needs(name: str, row: MethodRow, settings: Mapping[str, Any]) -> Needs:
    """What a method needs of a batch under these settings, which are all spelt out."""
    needs = row.needs
    if needs.only_with and needs.only_with not in settings:
        raise UserError(
            f"the row of method '{name}' is wrong: needs.only_with is '{needs.only_with}', "
            f"which is no setting of it; {did_you_mean(needs.only_with, settings)}"
        )
    return needs if not needs.only_with or settings[needs.only_with] else Needs()


def raised_batch(batch: BatchSizes, data: DataConfig, choice: MethodChoice) -> BatchSizes:
    """The plan's batch, raised to what the method needs where the settings do not say their own."""
    row, (labelled, unlabelled) = method_row(choice.name), batch
    needs = batch_needs(choice.name, row, choice.settings)
    if data.labelled_batch is None:
        labelled = needs.enough(needs.labelled, labelled)
    if data.unlabelled_batch is None and row.trained_by_unlabelled:
        unlabelled = needs.enough(needs.unlabelled, unlabelled)
    return labelled, unlabelled


def check_needs(config: Config, plan: Plan, choice: MethodChoice) -> None:
    """Refuse a batch, a network or a project that the method cannot be trained with.

    Args:
        config: with all that the plan decides filled in.
        plan: of the project.
        choice: the method with every setting spelt out.
    """
    row, name = method_row(choice.name), choice.name
    if plan.dimensions not in row.dimensions:
        raise UserError(
            f"method '{name}' is for {row.dimensions[0]}D crops, and this project has "
            f"{plan.dimensions}D ones; `tracoco methods --dimensions {plan.dimensions}` lists "
            "others"
        )
    if row.needs.features and config.network.name.startswith(PREFIX):
        raise UserError(
            f"method '{name}' needs the feature maps of its network, which "
            f"'{config.network.name}' does not give; set network.name to one that does: "
            f"{', '.join(NETWORKS)}"
        )
    needs, (labelled, unlabelled) = batch_needs(name, row, choice.settings), config.data.batch
    sizes = [("labelled", needs.labelled, labelled)]
    if row.trained_by_unlabelled:
        sizes.append(("unlabelled", needs.unlabelled, unlabelled))
    for kind, fewest, size in sizes:
        enough = needs.enough(fewest, size)
        if size != enough:
            number = f"an even number of {kind} crops" if needs.even else f"{kind} crops"
            instead = f", or method.{needs.only_with} to false" if needs.only_with else ""
            raise UserError(
                f"method '{name}' needs {number} in a batch, {fewest} or more, but "
                f"data.{kind}_batch is {size}; set it to {enough}{instead}"
            )


def check_modules(name: str, row: MethodRow, method: Method) -> None:
    """Refuse a row which says that unlabelled crops teach a module that there is not."""
    known = [part for part, _ in method.named_modules() if part and part.count(".") < 2]
    for module in row.trained_by_unlabelled:
        try:
            method.get_submodule(module)
        except AttributeError:
            raise UserError(
                f"the row of method '{name}' is wrong: trained_by_unlabelled names the module "
                f"'{module}', which {type(method).__name__} does not have; "
                f"{did_you_mean(module, known)}"
            ) from None


@contextmanager
def named_failure(name: str, batch: Batch, step: int) -> Iterator[None]:
    """An error of a method's `forward` in here says which method it is, and what may be wrong."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        hint = _unread(name, batch)
        if not hint:
            error.add_note(f"in forward of method '{name}' at step {step}")
            raise
        place = traceback.extract_tb(error.__traceback__)[1:]
        own = next((part for part in reversed(place) if "/torch/" not in part.filename), None)
        where = f" at {own.filename}:{own.lineno}" if own else ""
        raise UserError(
            f"method '{name}' fails in its forward{where}: {first_line(error)}; {hint}"
        ) from error


def _unread(name: str, batch: Batch) -> str:
    """What may be wrong where a method of a user's own is given no unlabelled crops."""
    row = METHODS.get(name)
    if row is None or name in SHIPPED or row.trained_by_unlabelled:
        return ""
    if len(batch.first.values) > batch.labelled_count:
        return ""
    return (
        "its row has trained_by_unlabelled=(), so that no unlabelled crops are read: if it learns "
        "from them, name the modules that they teach, e.g. ('network',)"
    )


def checked_terms(name: str, output: object) -> dict[str, torch.Tensor]:
    """The loss terms of a step; each is a scalar tensor with a gradient, or zero."""
    if not isinstance(output, StepOutput):
        raise UserError(
            f"forward of method '{name}' returns {type(output).__name__}; return "
            "StepOutput(terms), with the loss terms by name"
        )
    if not output.terms:
        raise UserError(f"method '{name}' has no loss terms; return at least one in StepOutput")
    for term, value in output.terms.items():
        problem = _term_problem(value)
        if problem:
            raise UserError(f"loss term '{term}' of method '{name}' {problem}")
    return output.terms


def _term_problem(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return (
            f"is {type(value).__name__} and not a tensor; keep it one, without .item() or float(), "
            "so that gradients flow through it"
        )
    if value.ndim:
        return f"has the shape {list(value.shape)} and is not a scalar; take its mean or its sum"
    if not value.requires_grad and value != 0:
        return (
            "has no gradient, so that nothing learns from it; look for .detach(), torch.no_grad() "
            "or argmax in its formula"
        )
    return ""


def check_labelled_terms(name: str, terms: Mapping[str, object], labelled: frozenset[str]) -> None:
    """Refuse terms of which none comes from labels: the adaptive weight would multiply them all."""
    if not labelled & terms.keys():
        raise UserError(
            f"none of the loss terms of method '{name}' ({', '.join(terms)}) is in its "
            f"labelled_terms ({', '.join(sorted(labelled))}), so that none counts before the "
            "labelled crops are known; give the one that comes from labels this name, or set "
            "labelled_terms in the class"
        )


def not_finite(name: str, step: int, values: Mapping[str, float], batch: Batch) -> UserError:
    """The error that ends a run whose loss is not finite."""
    terms = ", ".join(f"{term} {value:g}" for term, value in values.items())
    broken = ", ".join(term for term, value in values.items() if not math.isfinite(value))
    advice = "look at these scans, or lower optimizer.lr"
    if step == 0:
        advice = _unread(name, batch) or (
            f"nothing is learnt yet, so look at these scans and at the formula of {broken}"
        )
    return UserError(
        f"step {step}: the loss of method '{name}' is not finite ({terms}) on cases "
        f"{', '.join(batch.cases)}; {advice}"
    )
