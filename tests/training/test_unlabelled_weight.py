"""How much unlabelled crops count: begins when labels are known, falls when a class fades."""

import json

import pytest
import torch

from tracoco.methods.health import PseudoLabelHealth
from tracoco.training.pseudo_label_monitor import (
    AGREED,
    CHECK_EVERY,
    DOUBTED,
    FALL,
    FORGOTTEN,
    FRACTION_WINDOW,
    KNOWN_DICE,
    RISE,
    TRUSTED,
    WINDOW,
    UnlabelledWeight,
    structure_overlaps,
)

SHARES = (0.9, 0.1)
KNOWN = (9.0, 20.0)
"""Dice 2 * 9 / 20 = 0.9."""
UNKNOWN = (2.0, 20.0)
"""Dice 0.2."""


def decide(
    weight: UnlabelledWeight, times: int, overlaps: tuple[float, ...], fractions: tuple[float, ...]
) -> None:
    for _ in range(times):
        weight.decide(CHECK_EVERY - 1, overlaps, fractions)


def begun(fractions: tuple[float, ...] = SHARES) -> UnlabelledWeight:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 2 * WINDOW, KNOWN, fractions)
    assert weight.began is not None
    return weight


def test_overlaps_count_voxels_inside_alone() -> None:
    # Two classes and the background in five voxels; the last lies beyond the scan.
    classes = torch.tensor([[0, 1, 1, 2, 2]])
    probability = torch.nn.functional.one_hot(classes).movedim(-1, 1).float()
    labels = torch.tensor([[1, 1, 1, 2, 2]])
    valid = torch.tensor([[True, True, True, True, False]])
    # Class 1: 2 in common, 2 + 3 in all; class 2: 1 in common, 1 + 1.
    assert structure_overlaps(probability, labels, valid) == [2.0, 5.0, 1.0, 2.0]


def test_what_is_known_is_the_dice_of_all_crops_of_the_window() -> None:
    weight = UnlabelledWeight((0.8, 0.1, 0.1))
    weight.decide(9, [2.0, 5.0, 0.0, 0.0], ())
    assert weight.known == pytest.approx(0.8)  # a class in no crop does not count
    weight.decide(19, [1.0, 5.0, 1.0, 4.0], ())
    assert weight.known == pytest.approx((2 * 3 / 10 + 2 * 1 / 4) / 2)


def test_nothing_counts_until_the_labelled_crops_are_known() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 3 * WINDOW, UNKNOWN, SHARES)
    assert weight.began is None
    assert weight.value == 0.0
    # Of ten decisions, n with Dice 0.9 and the others with 0.2 have 0.2 + 0.07 n: the first window
    # of 19 has 0.83 and rises to 0.9 in the second, the first one of 20 has 0.9 already.
    decide(weight, 2 * WINDOW - 1, KNOWN, SHARES)
    assert weight.known == pytest.approx(0.9)
    assert not weight.began
    weight.decide(499, KNOWN, SHARES)
    assert weight.began == 500
    assert weight.value == 0.0
    decide(weight, 3, KNOWN, SHARES)
    assert weight.value == pytest.approx(3 * RISE)
    decide(weight, 20, KNOWN, SHARES)
    assert weight.value == 1.0


def test_nothing_counts_while_labels_alone_still_teach_much() -> None:
    weight = UnlabelledWeight(SHARES)
    for dice in (0.76, 0.78, 0.80, 0.82):
        decide(weight, WINDOW, (10 * dice, 20.0), SHARES)
        assert weight.known == pytest.approx(dice)
        assert weight.began is None
    decide(weight, WINDOW, (10 * 0.825, 20.0), SHARES)
    assert weight.began is not None


def test_labelled_crops_that_stay_unknown_let_nothing_count() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 5 * WINDOW, (10 * (KNOWN_DICE - 0.01), 20.0), SHARES)
    assert weight.began is None
    assert weight.value == 0.0


def test_a_structure_that_the_pseudo_labels_lack_keeps_them_from_counting() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 3 * WINDOW, KNOWN, (0.98, 0.02))  # a fifth of the labelled share
    assert weight.began is None
    decide(weight, WINDOW, KNOWN, (0.97, 0.03))
    assert weight.began is not None


def test_the_weight_falls_while_a_structure_fades_and_rises_when_it_is_back() -> None:
    weight = begun()
    decide(weight, WINDOW, KNOWN, SHARES)
    assert weight.value == pytest.approx(min(1.0, WINDOW * RISE))
    # Means of three decisions: 0.085, then 0.07, which is less than 0.75 of 0.1.
    decide(weight, 1, KNOWN, (0.945, 0.055))
    assert weight.fading == []
    decide(weight, 1, KNOWN, (0.945, 0.055))
    assert weight.fading == [1]
    assert weight.value == pytest.approx(FALL)
    decide(weight, 5, KNOWN, (0.945, 0.055))
    assert weight.value < 0.02
    assert weight.lost == []
    decide(weight, 2 * WINDOW, KNOWN, SHARES)
    assert weight.fading == []
    assert weight.value == 1.0


def test_a_lost_structure_makes_unlabelled_crops_begin_anew_and_count_half_as_much() -> None:
    weight = begun()
    decide(weight, WINDOW, KNOWN, SHARES)
    decide(weight, 1, KNOWN, (1.0, 0.0))
    assert (weight.fading, weight.lost) == ([1], [])  # 0.067 of 0.1
    decide(weight, 1, KNOWN, (1.0, 0.0))
    assert weight.lost == [1]  # 0.033 of 0.1
    assert (weight.value, weight.limit) == (0.0, 0.5)
    assert weight.began is None
    decide(weight, 2 * WINDOW - 1, KNOWN, SHARES)
    assert not weight.began
    decide(weight, 3 * WINDOW, KNOWN, SHARES)
    assert weight.value == 0.5


def test_unlabelled_crops_count_less_while_labelled_ones_are_forgotten() -> None:
    weight = begun()
    decide(weight, 2 * WINDOW, KNOWN, SHARES)
    before = KNOWN[0] / 10
    decide(weight, WINDOW, (10 * (before - FORGOTTEN + 0.001), 20.0), SHARES)
    assert weight.value == 1.0
    assert not weight.record().forgotten
    decide(weight, WINDOW, (10 * (before - FORGOTTEN - 0.001), 20.0), SHARES)
    assert weight.record().forgotten
    # The mean of the window was below once six of its ten decisions were, five decisions ago.
    assert weight.value == pytest.approx(FALL**5)
    decide(weight, 4, UNKNOWN, SHARES)
    assert weight.value == pytest.approx(FALL**9)
    decide(weight, 3 * WINDOW, KNOWN, SHARES)
    assert weight.value == 1.0
    assert not weight.record().forgotten


def test_a_structure_that_takes_over_is_a_background_that_fades() -> None:
    weight = begun()
    decide(weight, WINDOW, KNOWN, SHARES)
    decide(weight, WINDOW, KNOWN, (0.5, 0.5))
    assert weight.fading == [0]


def test_a_method_without_pseudo_labels_goes_by_the_labelled_crops_alone() -> None:
    weight = UnlabelledWeight(SHARES)
    weight.see(PseudoLabelHealth(agreement=1.0))
    assert weight.mean_figures() == []
    decide(weight, 2 * WINDOW, KNOWN, ())
    decide(weight, WINDOW, KNOWN, ())
    assert weight.value == pytest.approx(min(1.0, WINDOW * RISE))


def test_shares_are_means_since_the_last_decision() -> None:
    weight = UnlabelledWeight(SHARES)
    weight.see(PseudoLabelHealth((0.9, 0.1)))
    weight.see(PseudoLabelHealth((0.7, 0.3)))
    assert weight.mean_figures() == pytest.approx([0.8, 0.2])
    weight.decide(9, KNOWN, weight.mean_figures())
    assert weight.mean_figures() == []


def agreeing(dice: float) -> tuple[float, ...]:
    """Figures of pseudo-labels that have the labelled share, and two answers with this Dice."""
    return (*SHARES, SHARES[1] * dice, SHARES[1])


def test_two_answers_that_disagree_count_for_as_much_as_they_agree() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 3 * WINDOW, KNOWN, agreeing(TRUSTED))
    assert weight.value == pytest.approx(1.0)
    decide(weight, 3, KNOWN, agreeing((DOUBTED + TRUSTED) / 2))
    assert weight.value == pytest.approx(0.5)
    decide(weight, 3, KNOWN, agreeing(DOUBTED))
    assert weight.value == pytest.approx(0.0)
    assert weight.fading == weight.lost == []


def test_unlabelled_crops_begin_once_two_networks_agree_enough() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 4 * WINDOW, KNOWN, agreeing(AGREED - 0.01))
    assert weight.agreement == pytest.approx(AGREED - 0.01)
    assert weight.began is None
    decide(weight, 1 + FRACTION_WINDOW, KNOWN, agreeing(AGREED + 0.01))
    assert weight.began is not None


def test_two_networks_that_agree_on_nothing_never_begin() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 4 * WINDOW, KNOWN, agreeing(0.0))
    assert weight.agreement == 0.0
    assert weight.began is None


def test_networks_that_taught_each_other_are_trusted_no_more_than_before() -> None:
    weight = UnlabelledWeight(SHARES)
    halfway = (DOUBTED + TRUSTED) / 2
    decide(weight, 3 * WINDOW, KNOWN, agreeing(halfway))
    assert weight.value == pytest.approx(0.5)
    decide(weight, 3 * WINDOW, KNOWN, agreeing(TRUSTED))
    assert weight.value == pytest.approx(0.5)
    assert weight.doubted
    # Networks that have lost a structure go back to weights that have not taught each other.
    decide(weight, 2, KNOWN, (1.0, 0.0, 0.0, 0.0))
    assert weight.lost == [1]
    decide(weight, 3 * WINDOW, KNOWN, agreeing(1.0))
    assert weight.value == 0.5  # all of a limit of a half
    assert not weight.doubted


def test_the_structure_that_is_agreed_on_least_decides_and_an_unmarked_one_does_not() -> None:
    weight = UnlabelledWeight((0.7, 0.1, 0.1, 0.1))
    common, marked = (0.09, 0.03, 0.0), (0.1, 0.05, 0.0)
    weight.see(PseudoLabelHealth((0.25,) * 4, common=common, marked=marked))
    assert weight.mean_figures()[4:] == pytest.approx([0.09, 0.1, 0.03, 0.05, 0.0, 0.0])
    weight.decide(9, KNOWN, weight.mean_figures())
    assert weight.agreement == pytest.approx(0.6)


def test_stray_voxels_of_a_structure_veto_nothing() -> None:
    weight = UnlabelledWeight((0.9, 0.1, 0.0))
    stray = (0.9, 0.1, 1e-7, 0.095, 0.1, 0.0, 1e-7)  # of a structure that no label has
    decide(weight, 3 * WINDOW, (*KNOWN, 0.0, 0.0), stray)
    assert weight.agreement == pytest.approx(0.95)
    assert weight.value == pytest.approx(min(1.0, WINDOW * RISE))


def test_it_is_told_whether_disagreement_limits_the_weight() -> None:
    weight = UnlabelledWeight(SHARES)
    decide(weight, 2 * WINDOW + 1, KNOWN, agreeing(0.89))
    assert weight.value == pytest.approx(RISE)
    assert not weight.doubted  # it has just begun
    decide(weight, WINDOW, KNOWN, agreeing(0.75))
    assert weight.value == pytest.approx(0.5)
    assert weight.doubted


def test_it_goes_on_from_plain_values_as_if_never_stopped() -> None:
    first = begun()
    first.see(PseudoLabelHealth((0.9, 0.1)))
    decide(first, 3, KNOWN, (0.94, 0.06))
    second = UnlabelledWeight(SHARES)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for weight in (first, second):
        decide(weight, 4, UNKNOWN, SHARES)
    assert first.state_dict() == second.state_dict()


def test_what_early_networks_mark_too_much_of_does_not_fade_by_becoming_right() -> None:
    weight = begun((0.7, 0.3))
    decide(weight, WINDOW, KNOWN, (0.7, 0.3))
    decide(weight, 2 * WINDOW, KNOWN, SHARES)
    assert weight.fading == []
    assert weight.value == 1.0


def test_scans_that_hold_less_than_the_labelled_ones_are_measured_by_themselves() -> None:
    weight = begun((0.95, 0.05))
    decide(weight, 2 * WINDOW, KNOWN, (0.95, 0.05))
    assert weight.fading == []
    decide(weight, WINDOW, KNOWN, (0.97, 0.03))
    assert weight.fading == [1]
