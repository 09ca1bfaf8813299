from functools import partial

import pytest
from torch import Tensor

from tracoco.losses.consistency import ce_loss, mse_loss
from tracoco.losses.crc import crc_loss
from tracoco.studies.paper.gradients import (
    GradientRow,
    explain_gradient,
    explain_slips,
    gradient_analysis,
    simplex_gradient,
)

ROWS = gradient_analysis()


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.loss != "mse"], ids=lambda row: f"{row.loss}-{row.published}"
)
def test_cross_entropy_and_crc_pull_as_hard_as_published(row: GradientRow) -> None:
    assert row.ours == pytest.approx(row.published, abs=0.006)
    assert row.agrees


def test_gradients_worked_out_by_hand() -> None:
    # (q - p)^2 in both classes, halved: the derivative is -2 (q - p).
    assert simplex_gradient(mse_loss, 0.55, 0.2) == pytest.approx(-0.7)
    assert simplex_gradient(mse_loss, 0.55, 0.8) == pytest.approx(0.5)
    assert simplex_gradient(ce_loss, 0.55, 0.25) == pytest.approx(-4)
    # The peer is sure of the second class: -log(1 - p) in both terms, 0.9 / (1 - 0.2) twice.
    crc = partial(crc_loss, gamma=0.65, beta=0.15)
    assert simplex_gradient(crc, 0.1, 0.2) == pytest.approx(2 * 0.9 / 0.8)


def test_the_probabilities_that_reach_a_loss_are_those_asked_for() -> None:
    seen = []

    def spy(logits: Tensor, peer: Tensor, valid: Tensor | None) -> Tensor:
        seen.append((logits.softmax(dim=1).flatten().tolist(), peer.flatten().tolist()))
        assert valid is not None
        return (logits[:, 0] * valid).sum()

    simplex_gradient(spy, 0.95, 0.2)
    ((prediction, peer),) = seen
    assert prediction == pytest.approx([0.2, 0.8])
    assert peer == pytest.approx([0.95, 0.05])


def test_the_derivative_takes_the_second_class_along() -> None:
    def second_alone(logits: Tensor, peer: Tensor, valid: Tensor | None) -> Tensor:  # noqa: ARG001 - a loss
        return logits.softmax(dim=1)[:, 1].sum()

    assert simplex_gradient(second_alone, 0.5, 0.3) == pytest.approx(-1)


def test_the_slips_of_mse_are_shown_and_marked() -> None:
    rows = [row for row in ROWS if row.loss == "mse"]
    assert [row.published for row in rows] == [-0.35, -0.25, -0.45, -0.15, -0.7, -0.1]
    assert [row.ours for row in rows] == pytest.approx([-0.7, 0.5, -0.9, 0.3, -1.5, -0.3])
    assert not any(row.agrees for row in rows)
    assert "half" in explain_slips()
    assert "wrong sign" in explain_slips()


def test_the_table_is_complete_and_says_which_derivative_it_shows() -> None:
    assert len(ROWS) == 18
    assert [row.confidence for row in ROWS[::6]] == [
        "unconfident",
        "mildly confident",
        "very confident",
    ]
    assert "derivative" in explain_gradient()
