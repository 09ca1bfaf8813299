"""What is asked of every row of the table of methods: `tracoco.testing`, and BatchNorm."""

import pytest
import torch
from samples import SPARING, make_batch

from tracoco.methods import METHODS
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.runs.build import run_method
from tracoco.testing import CHECKS, Subject

SEGMENTING = [name for name in METHODS if METHODS[name].segments]
TEACHING = [name for name in METHODS if METHODS[name].trained_by_unlabelled]
CASES = [
    (check, name, *case)
    for check in CHECKS
    for name, row in METHODS.items()
    for case in CHECKS[check].cases_of(row)
]
NOT_MET = {
    ("padding", "tracoco-as-released"): "padding change loss term 'translation'",
}
"""What is known and stays: the release normalises logits along a spatial axis, padding too."""


@pytest.mark.parametrize(("check", "name", "dimensions", "classes"), CASES)
def test_every_method(check: str, name: str, dimensions: int, classes: int) -> None:
    subject = Subject.of(name, settings=SPARING.get(name))
    known = NOT_MET.get((check, name))
    if known:
        with pytest.raises(AssertionError, match=known):
            CHECKS[check].run(subject, dimensions, classes)
    else:
        CHECKS[check].run(subject, dimensions, classes)


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
