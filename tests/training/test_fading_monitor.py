"""A structure of which the pseudo-labels have less and less."""

from samples import step_record

from tracoco.methods.health import PseudoLabelHealth
from tracoco.training.logger import FadingMonitor

NAMES = ["background", "a", "b"]


def fractions(a: float, b: float) -> PseudoLabelHealth:
    return PseudoLabelHealth((1 - a - b, a, b))


def observed(monitor: FadingMonitor, *steps: PseudoLabelHealth) -> list[list[str]]:
    return [list(monitor.observe(step)) for step in steps]


def test_a_mean_below_three_quarters_of_the_largest_one_is_told_with_both() -> None:
    monitor = FadingMonitor(NAMES)
    found = observed(monitor, *[fractions(0.2, 0.1)] * 200, *[fractions(0.1, 0.1)] * 51)
    assert found == [[]] * 250 + [["a"]]
    now, largest = monitor.observe(fractions(0.1, 0.1))["a"]
    assert (round(now, 3), round(largest, 3)) == (0.148, 0.2)


def test_what_networks_say_before_they_have_learnt_is_no_measure() -> None:
    untrained, learnt = [fractions(0.4, 0.4)] * 100, [fractions(0.02, 0.01)] * 300
    assert not any(observed(FadingMonitor(NAMES), *untrained, *learnt))


def test_a_share_that_rises_or_wavers_is_sound() -> None:
    rising = [fractions(0.001 * step, 0.1 + 0.01 * (step % 2)) for step in range(400)]
    assert not any(observed(FadingMonitor(NAMES), *rising))


def test_background_may_become_less() -> None:
    less = [fractions(0.1 + 0.001 * step, 0.1 + 0.001 * step) for step in range(400)]
    assert not any(observed(FadingMonitor(NAMES), *less))


def test_steps_without_pseudo_labels_do_not_count() -> None:
    monitor = FadingMonitor(NAMES)
    none = PseudoLabelHealth()
    sound, low = [fractions(0.2, 0.1), none] * 200, [fractions(0.1, 0.1), none] * 51
    found = observed(monitor, *sound, *low)
    assert found.index(["a"]) == 2 * 250
    assert found[-1] == []


def test_a_resume_goes_on_from_the_log() -> None:
    history = [step_record(step, health=fractions(0.2, 0.1)) for step in range(200)]
    found = observed(FadingMonitor(NAMES, history), *[fractions(0.1, 0.1)] * 51)
    assert found == [[]] * 50 + [["a"]]
