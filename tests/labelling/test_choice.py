"""Which scans are chosen, with values worked out by hand."""

import numpy as np
import pytest

from tracoco.inference.prediction import Uncertainty
from tracoco.labelling.choice import candidate_count, choose, fractions_below, standardised


def scan(
    disagreement: float | None, entropy: float, *features: float, found: bool = True
) -> Uncertainty:
    return Uncertainty(disagreement, entropy, found, " ".join(map(str, features)))


def test_fractions_count_the_others_that_are_lower() -> None:
    assert fractions_below([0.1, 0.4, 0.2]).tolist() == [0, 1, 0.5]
    assert fractions_below([0.3, 0.3, 0.1]).tolist() == [0.75, 0.75, 0]  # equal ones count half
    assert fractions_below([5.0]).tolist() == [0]


def test_candidates_are_four_a_pick_but_half_of_all_at_most() -> None:
    assert candidate_count(1000, 5) == 20
    assert candidate_count(21, 5) == 11
    assert candidate_count(4, 3) == 3
    assert candidate_count(2, 5) == 5  # more than there are; all are taken


def test_features_are_brought_to_one_spread() -> None:
    rows = standardised(np.array([[0.0, 10.0, 7.0], [2.0, 10.0, 1007.0]]))
    # The second feature is alike in both. The others differ by 2 standard deviations each:
    # a root mean square of 2.
    assert rows.shape == (2, 2)
    assert np.linalg.norm(rows[0] - rows[1]) == pytest.approx(2)
    assert standardised(np.ones((3, 2))).shape == (3, 0)


def test_near_copies_of_the_most_uncertain_scan_are_not_chosen_together() -> None:
    unlabelled = {
        "copy1": scan(0.9, 0.9, 10, 0),
        "copy2": scan(0.89, 0.89, 10.1, 0),
        "copy3": scan(0.88, 0.88, 10, 0.1),
        "other": scan(0.5, 0.5, 0, 8),
        **{f"sure{index}": scan(0.1, 0.1, 5, 5) for index in range(6)},
    }
    chosen = choose(unlabelled, {"known": scan(0, 0, 0, 0)}, 2)
    assert {choice.case for choice in chosen} == {"copy1", "other"} or {
        choice.case for choice in chosen
    } == {"copy2", "other"}
    # By uncertainty alone two copies would have been chosen.
    assert sorted(unlabelled, key=lambda case: -unlabelled[case].entropy)[:2] == ["copy1", "copy2"]


def test_certain_scans_are_not_chosen_however_new_they_are() -> None:
    unlabelled = {f"unsure{i}": scan(0.5 + i / 100, 0.5, i, 0) for i in range(5)}
    unlabelled |= {f"sure{i}": scan(0.01, 0.01, 1000 * i, 50) for i in range(5)}
    chosen = choose(unlabelled, {"known": scan(0, 0, 0, 0)}, 1)
    assert chosen[0].case.startswith("unsure")


def test_figures_of_a_choice() -> None:
    unlabelled = {"a": scan(0.2, 0.3, 3), "b": scan(0.4, 0.1, 0), "c": scan(0.1, 0.05, 1)}
    labelled = {"known": scan(0, 0, 0)}
    first, second = choose(unlabelled, labelled, 2)
    # Uncertainty: a (1 + 0.5) / 2, b (0.5 + 1) / 2, c 0; two candidates, of which a is farther.
    assert (first.case, second.case) == ("a", "b")
    assert first.uncertainty == second.uncertainty == 0.75
    assert (first.disagreement_above, first.entropy_above) == (0.5, 1)
    spread = np.std([3, 0, 1, 0])
    assert first.novelty == pytest.approx(3 / spread)
    assert (first.nearest, first.novelty_above) == ("known", 1)
    assert (second.nearest, second.novelty) == ("known", 0)
    assert "the two networks differ by 20.0 %" in first.why
    assert "more than in 50 % of the scans" in first.why
    assert "entropy 0.30 of 1 (above 100 %)" in first.why


def test_distance_counts_those_already_chosen() -> None:
    unlabelled = {"a": scan(0.9, 0.9, 10), "b": scan(0.8, 0.8, 9), "c": scan(0.7, 0.7, 6)}
    first, second, third = choose(unlabelled, {"known": scan(0, 0, 0)}, 3)
    assert [first.case, second.case, third.case] == ["a", "c", "b"]
    assert (second.nearest, third.nearest) == ("a", "a")


def test_one_network_is_ranked_by_entropy_alone() -> None:
    unlabelled = {"a": scan(None, 0.1, 1), "b": scan(None, 0.9, 2), "c": scan(None, 0.2, 3)}
    (chosen,) = choose(unlabelled, {"known": scan(None, 0, 0)}, 1)
    assert chosen.case in ("b", "c")  # the two most uncertain are candidates; c is farther
    assert chosen.disagreement is None
    assert chosen.uncertainty == chosen.entropy_above
    assert "networks" not in chosen.why


def test_a_scan_without_any_structure_says_so_and_few_scans_are_all_chosen() -> None:
    chosen = choose({"a": scan(0, 0, 1, found=False)}, {"known": scan(0, 0, 1)}, 5)
    assert [choice.case for choice in chosen] == ["a"]
    assert "the model finds no structure in it" in chosen[0].why
