"""A class that is missing from the pseudo-labels for long, whichever it is."""

import pytest
from samples import step_record

from tracoco.methods.health import PseudoLabelHealth
from tracoco.training.logger import CollapseMonitor

EXPECTED = {"background": 0.94, "organ": 0.06}
SOUND, LOW = PseudoLabelHealth((0.9, 0.1)), PseudoLabelHealth((0.995, 0.005))


def observed(monitor: CollapseMonitor, *steps: PseudoLabelHealth) -> list[list[str]]:
    return [monitor.observe(health) for health in steps]


def test_absent_is_a_hundred_steps_below_a_tenth_of_the_labelled_share() -> None:
    # Labelled share 6%: below 0.6% counts, and 0.5% is below.
    found = observed(CollapseMonitor(EXPECTED), *[LOW] * 120)
    assert found == [[]] * 99 + [["organ"]] * 21


def test_one_sound_step_starts_the_count_again() -> None:
    monitor = CollapseMonitor(EXPECTED)
    assert not any(observed(monitor, *[LOW] * 99, SOUND, *[LOW] * 99))
    assert monitor.observe(LOW)
    assert not monitor.observe(SOUND)


def test_a_small_organ_is_not_a_collapse() -> None:
    assert not any(observed(CollapseMonitor({"background": 0.98, "organ": 0.02}), *[LOW] * 200))


@pytest.mark.parametrize(
    ("fractions", "absent"),
    [
        ((1.0, 0.0, 0.0), ["a", "b"]),
        ((0.0, 1.0, 0.0), ["background", "b"]),  # as cross pseudo supervision has done
        ((0.9, 0.1, 0.0), ["b"]),
        ((0.9, 0.05, 0.05), []),
    ],
)
def test_every_class_can_be_absent(fractions: tuple[float, ...], absent: list[str]) -> None:
    monitor = CollapseMonitor({"background": 0.88, "a": 0.06, "b": 0.06})
    assert observed(monitor, *[PseudoLabelHealth(fractions)] * 100)[-1] == absent


def test_the_count_survives_a_resume_through_the_log() -> None:
    history = [step_record(step, health=LOW) for step in range(70)]
    found = observed(CollapseMonitor(EXPECTED, history), *[LOW] * 40)
    assert found.index(["organ"]) == 29


def test_methods_without_pseudo_labels_never_collapse() -> None:
    assert not any(observed(CollapseMonitor(EXPECTED), *[PseudoLabelHealth()] * 200))
