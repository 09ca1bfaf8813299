from tracoco.training.health import CollapseMonitor

SOUND, LOW = {"share/0": 0.9}, {"share/0": 0.995}


def observed(monitor: CollapseMonitor, *shares: dict[str, float]) -> list[bool]:
    return [monitor.observe(share) for share in shares]


def test_collapsed_is_a_hundred_steps_below_a_tenth_of_the_labelled_share() -> None:
    # Labelled share 6%: foreground below 0.6% counts, and 0.5% is below.
    found = observed(CollapseMonitor(0.06), *[LOW] * 120)
    assert found.index(True) == 99
    assert all(found[99:])


def test_one_sound_step_starts_the_count_again() -> None:
    monitor = CollapseMonitor(0.06)
    assert not any(observed(monitor, *[LOW] * 99, SOUND, *[LOW] * 99))
    assert monitor.observe(LOW)
    assert not monitor.observe(SOUND)


def test_a_small_organ_is_not_a_collapse() -> None:
    assert not any(observed(CollapseMonitor(0.02), *[LOW] * 200))


def test_the_count_survives_a_resume_through_the_log() -> None:
    history = [{"step": step, "health": LOW} for step in range(70)]
    found = observed(CollapseMonitor(0.06, history), *[LOW] * 40)
    assert found.index(True) == 29


def test_methods_without_pseudo_labels_never_collapse() -> None:
    assert not any(observed(CollapseMonitor(0.5), *[{}] * 200))
