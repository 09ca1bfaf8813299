"""Checks of what a row states: padding, the smallest batch, and feature maps of the network."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from tracoco.data.batch import Batch, Crops
from tracoco.errors import UserError
from tracoco.methods.method import Method, NetworkFactory
from tracoco.settings import checked
from tracoco.testing.subject import (
    PointwiseNetwork,
    Subject,
    with_padding,
    with_undrawn,
    without_labelled_voxels,
)
from tracoco.training.contract import batch_needs, checked_terms

PAST_THE_RAMP = 1000
PADDED_BELOW = 14
"""Voxels of the volume before this place along its first axis are padding."""
CHANGED = 2
"""Layers of padding that get other intensities, far from the scan: a blur may see what is near."""


def pointwise(dimensions: int, classes: int) -> NetworkFactory:
    """Makes networks that see each voxel alone, by whatever name they are asked for."""

    def make(*_: object, **__: object) -> nn.Module:
        return PointwiseNetwork(dimensions, classes)

    return make


def check_padding(subject: Subject, dimensions: int, classes: int) -> None:
    """Neither labels nor intensities of padding change any loss term."""
    padded = with_padding(subject.batch(dimensions, classes), PADDED_BELOW)
    labels, valid = padded.labels, padded.first.valid[: padded.labelled_count]
    other = replace(padded, labels=torch.where(valid, labels, (labels + 1) % classes))

    def make() -> Method:
        return subject.make(dimensions, classes)

    _same_terms(subject, make, (padded, other), "the labels of padding")
    if subject.row.needs.features:  # a network with feature maps sees beyond a voxel
        return

    def make_pointwise() -> Method:
        return subject.make(dimensions, classes, network=pointwise(dimensions, classes))

    other = replace(padded, first=_changed(padded.first), second=_changed(padded.second))
    _same_terms(subject, make_pointwise, (padded, other), "the intensities of padding")


def check_undrawn(subject: Subject, dimensions: int, classes: int) -> None:
    """What the label has where nobody has drawn changes no loss term, and all terms are finite."""
    partly = with_undrawn(subject.batch(dimensions, classes))
    labels, drawn = partly.labels, partly.first.valid[: partly.labelled_count]
    other = replace(partly, labels=torch.where(drawn, labels, (labels + 1) % classes))

    def make() -> Method:
        return subject.make(dimensions, classes)

    _same_terms(subject, make, (partly, other), "the labels of voxels that are not drawn")
    nothing = without_labelled_voxels(partly)
    for step in (0, PAST_THE_RAMP):
        for name, term in checked_terms(subject.name, make()(nothing, step)).items():
            if not term.isfinite():
                raise AssertionError(
                    f"loss term '{name}' is {term.item()} where no labelled voxel is drawn"
                )


def _changed(crops: Crops) -> Crops:
    """The same crops with other intensities in the outermost padding."""
    values = crops.values.clone()
    values[:, :, :CHANGED] = 1 - values[:, :, :CHANGED]
    return replace(crops, values=values)


def _same_terms(
    subject: Subject, make: Callable[[], Method], batches: tuple[Batch, Batch], what: str
) -> None:
    """See that a fresh method makes the same terms of both batches, at first and later on."""
    for step in (0, PAST_THE_RAMP) if make().pretrain_steps else (PAST_THE_RAMP,):
        found = []
        for batch in batches:
            method = make()
            torch.manual_seed(0)
            found.append(checked_terms(subject.name, method(batch, step)))
        for name, term in found[0].items():
            if not torch.isclose(term, found[1][name], rtol=1e-5, atol=1e-8):
                raise AssertionError(f"{what} change loss term '{name}' at step {step}")


def check_fewest_crops(subject: Subject, dimensions: int, classes: int) -> None:
    """The terms of as few crops as the row allows are finite."""
    config = checked(subject.method.Config, dict(subject.settings), f"method {subject.name}")
    needs = batch_needs(subject.name, subject.row, config.model_dump())
    sizes = needs.enough(needs.labelled, 0), needs.enough(needs.unlabelled, 0)
    batch = subject.batch(dimensions, classes, crops=sizes)
    labelled, unlabelled = batch.labelled_count, len(batch.cases) - batch.labelled_count
    told = f"{labelled} labelled and {unlabelled} unlabelled crops"
    try:
        method = subject.make(dimensions, classes, unlabelled_batch=unlabelled)
        method(batch, 0)
        terms = checked_terms(subject.name, method(batch, PAST_THE_RAMP))
    except (RuntimeError, ValueError, IndexError, UserError) as error:
        raise AssertionError(f"it fails on a batch of {told}: {error}") from error
    broken = [name for name, term in terms.items() if not term.isfinite()]
    if broken:
        raise AssertionError(f"loss term '{broken[0]}' is not finite for a batch of {told}")


def check_features(subject: Subject, dimensions: int, classes: int) -> None:
    """A network without feature maps is refused if the row says so, and enough if it does not."""
    batch = subject.batch(dimensions, classes)
    try:
        method = subject.make(dimensions, classes, network=pointwise(dimensions, classes))
        method(batch, PAST_THE_RAMP)
    except UserError as error:
        if not subject.row.needs.features:
            raise AssertionError(f"a network without feature maps is refused: {error}") from error
    except (AttributeError, TypeError) as error:
        raise AssertionError(f"it fails on a network without feature maps: {error}") from error
    else:
        if subject.row.needs.features:
            raise AssertionError("the row needs feature maps, but a network without is accepted")
