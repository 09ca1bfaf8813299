"""Which real cases teach and which are tested, by names alone."""

import numpy as np
from benchmarks.real import parts

HIPPOCAMPUS = [f"hippocampus_{number:03d}" for number in range(220)]
"""Sorted, as the parts are to be."""


def shuffled(names: list[str]) -> list[str]:
    return [names[place] for place in np.random.default_rng(0).permutation(len(names))]


def test_the_last_40_hippocampus_cases_by_name_are_tested() -> None:
    splits = parts.hippocampus(shuffled(HIPPOCAMPUS))
    assert splits.labelled == tuple(HIPPOCAMPUS[:180])
    assert splits.test == tuple(HIPPOCAMPUS[180:])
    assert splits.unlabelled == splits.validation == ()


def test_settings_are_chosen_without_a_case_that_is_reported_on() -> None:
    splits = parts.tuning(parts.hippocampus(shuffled(HIPPOCAMPUS)), 20)
    assert splits.labelled == tuple(HIPPOCAMPUS[:160])
    assert splits.test == tuple(HIPPOCAMPUS[160:180])
    assert not set(splits.ids) & set(parts.hippocampus(HIPPOCAMPUS).test)


def test_left_atrium_keeps_the_order_of_its_list() -> None:
    names = shuffled([f"case{number}" for number in range(80)])
    splits = parts.la(names)
    assert splits.labelled == tuple(names[:64])
    assert splits.test == tuple(names[64:])


def test_acdc_is_tested_on_the_validation_patients() -> None:
    training, validation = ["p9_frame01", "p9_frame02", "p1_frame01"], ["p5_frame01", "p5_frame02"]
    splits = parts.acdc(training, validation)
    assert splits.labelled == tuple(training)
    assert splits.test == tuple(validation)


def test_brats_learns_from_the_first_40_of_its_list() -> None:
    training = shuffled([f"case{number}" for number in range(50)])
    splits = parts.brats19(training, ["z", "y"])
    assert splits.labelled == tuple(training[:40])
    assert splits.test == ("z", "y")


def test_the_last_4_pancreas_scans_by_name_are_tested() -> None:
    names = [f"pancreas_{number:02d}" for number in range(20)]
    splits = parts.btcv_pancreas(shuffled(names))
    assert splits.labelled == tuple(names[:16])
    assert splits.test == tuple(names[16:])
