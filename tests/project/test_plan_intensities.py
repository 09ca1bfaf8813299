"""How a plan chooses what intensities are normalised by."""

from dataclasses import replace
from pathlib import Path

import pytest

from tracoco.project.case_statistics import CaseStatistics, Intensities
from tracoco.project.derive import choose_statistics, suitable_voxels
from tracoco.project.explain import explain_plan
from tracoco.project.explain_values import Reason
from tracoco.project.fingerprint import Fingerprint, Foreground, LabelValue
from tracoco.project.plan import Plan, read_plan, write_plan
from tracoco.project.planner import make_plan

Percentiles = tuple[float, float, float, float, float]

STRIPPED = (0.0, 0.0, 0.0, 300.0, 400.0)  # more than half of it is exactly 0
PADDED = (0.0, 0.0, 200.0, 300.0, 400.0)  # a part of it is exactly 0
NOISY = (1.0, 2.0, 20.0, 300.0, 401.0)  # 19 of 400: the median is in the air
NOISY_WITH_ZEROS = (0.0, 0.0, 20.0, 300.0, 400.0)
FILLED = (1.0, 50.0, 200.0, 300.0, 400.0)
CONSTANT = (5.0, 5.0, 5.0, 5.0, 5.0)


def case(*channels: Percentiles) -> CaseStatistics:
    values = tuple(
        Intensities(each[0], each[-1], each[2], each, integers=False) for each in channels
    )
    return CaseStatistics("a", (64, 64, 64), (1, 1, 1), len(channels), intensities=values)


def scans(*cases: CaseStatistics, foreground: tuple[Foreground, ...] = ()) -> Fingerprint:
    return Fingerprint(cases, (LabelValue(1, 9, 2),), foreground)


def ct(foreground: Foreground | None = None) -> Fingerprint:
    values = Intensities(-1024, 3000, 0, (-1000, -900, 0, 500, 2000), integers=True)
    found = CaseStatistics("a", (64, 64, 64), (1, 1, 1), 1, intensities=(values,))
    return scans(found, foreground=(foreground,) if foreground else ())


def reasons(plan: Plan, fingerprint: Fingerprint) -> dict[str, Reason]:
    return {reason.name: reason for reason in explain_plan(plan, fingerprint, 99).reasons}


@pytest.mark.parametrize(
    ("percentiles", "voxels"),
    [
        (STRIPPED, "above_background"),
        (PADDED, "above_background"),
        (NOISY, "above_air"),
        (NOISY_WITH_ZEROS, "above_air"),
        (FILLED, "all"),
        (CONSTANT, "all"),
    ],
)
def test_the_voxels_follow_from_the_percentiles(percentiles: Percentiles, voxels: str) -> None:
    assert choose_statistics([case(percentiles)]) == (voxels,)
    plan = make_plan(scans(case(percentiles)))
    assert (plan.normalisation, plan.statistics_over) == ("zscore", (voxels,))


def test_most_scans_of_a_channel_decide_for_it() -> None:
    cases = [case(STRIPPED, FILLED), case(FILLED, FILLED), case(STRIPPED, NOISY)]
    assert suitable_voxels(cases, 0) == {"above_air": 0, "above_background": 2, "all": 1}
    assert choose_statistics(cases) == ("above_background", "all")
    assert choose_statistics(cases[1:]) == ("above_background", "above_air")  # one each
    headers = [replace(each, intensities=()) for each in cases]
    assert choose_statistics(headers) == ("all", "all")
    assert choose_statistics([*headers, *cases[:1]]) == ("above_background", "all")


def test_a_window_goes_with_the_numbers_of_the_structures() -> None:
    structures = Foreground(-96, 215, 80, 40)
    plan = make_plan(ct(structures))
    assert (plan.window, plan.window_mean_sd) == (((-96, 215),), ((80, 40),))
    given = make_plan(ct(structures), overrides={"window": (-125, 275)})
    assert given.window_mean_sd == ((80, 40),)
    known = make_plan(ct(structures), overrides={"window_mean_sd": (10, 20)})
    assert known.window_mean_sd == ((10, 20),)
    for nothing in (None, replace(structures, sd=0.0)):
        plan = make_plan(ct(nothing), overrides={"window": (-125, 275)})
        assert plan.window_mean_sd == (None,)
        assert plan.window_scale(0, (-125, 275)) == (75, 100)  # the centre, and a quarter of 400
    assert make_plan(scans(case(FILLED), foreground=(structures,))).window_mean_sd == (None,)


def test_range_and_limits_of_the_intensities(plan: Plan) -> None:
    assert (plan.intensity_range, plan.intensity_limits) == (1, (0, 1))
    plan = plan.model_copy(update={"normalisation": "zscore"})
    assert (plan.intensity_range, plan.intensity_limits) == (5, (-5, 5))
    windows = {"window": ((-100.0, 300.0), None), "window_mean_sd": ((80.0, 40.0), None)}
    both = plan.model_copy(update={"channels": 2, **windows})
    assert both.intensity_limits == (-5, 5.5)  # -4.5 and 5.5, and -5 and 5
    alone = plan.model_copy(update={"window": ((-100.0, 300.0),)})
    assert alone.intensity_limits == (-2, 2)


def test_plans_from_before_keep_their_range_and_their_hash(tmp_path: Path, plan: Plan) -> None:
    path = tmp_path / "plan.yaml"
    write_plan(path, make_plan(scans(case(STRIPPED))))
    blocks = path.read_text().split("\n\n")
    later = ("\nnormalisation:", "\nstatistics_over:", "\nwindow_mean_sd:")
    old = [block for block in blocks if not any(name in block for name in later)]
    assert len(old) == len(blocks) - 3
    path.write_text("\n\n".join(old))
    read = read_plan(path)
    assert (read.normalisation, read.statistics_over) == ("range", ("all",))
    assert read.window_mean_sd == (None,)
    # Noted before there were z-scores: stores that are prepared must stay so.
    assert plan.hash() == "22a15b722bdb725f92ec4769f810f8f79f7a249957164a5901ba6904abc2f203"
    changes = {"crop_to_content": True, "window": ((-125.0, 275.0),)}
    windowed = plan.model_copy(update=changes)
    assert windowed.hash() == "e7b8e142ab79a55a41bee7fa9e35152539e48c50af886490b27de98f45599183"
    unused = plan.model_copy(update={"statistics_over": ("above_air",)})
    assert unused.hash() == plan.hash()
    assert {"normalisation", "statistics_over", "window_mean_sd"} <= plan.as_always


def test_what_z_scores_go_by_changes_the_hash(plan: Plan) -> None:
    zscore = plan.model_copy(update={"normalisation": "zscore"})
    assert not {"normalisation", "statistics_over", "window_mean_sd"} & zscore.as_always
    changes = ({"statistics_over": ("above_air",)}, {"window_mean_sd": ((0.0, 1.0),)})
    hashes = {
        each.hash() for each in (plan, zscore, *(zscore.model_copy(update=c) for c in changes))
    }
    assert len(hashes) == 4


def test_the_voxels_are_explained_with_their_numbers() -> None:
    fingerprint = scans(case(STRIPPED), case(PADDED), case(NOISY))
    plan = make_plan(fingerprint)
    found = reasons(plan, fingerprint)
    assert found["normalisation"].value == "zscore"
    assert found["normalisation"].why.startswith("a mean of the body is subtracted")
    assert found["normalisation"].numbers == "intensities become -5 to 5"
    assert "window_mean_sd, channel 0" not in found
    voxels = found["statistics_over, channel 0"]
    assert voxels.value == "above_background"
    assert voxels.why.startswith("many voxels have exactly the lowest value")
    assert voxels.numbers == (
        "above_air suits 1, above_background suits 2, all suits 0 of 3 scans; "
        "percentiles 0.5, 5, 50 and 99.5: 0, 0, 20 and 400"
    )
    other = plan.model_copy(update={"statistics_over": ("all",)})
    voxels = reasons(other, fingerprint)["statistics_over, channel 0"]
    assert (
        voxels.why == "set by hand or by --paper-data; from the data it would be above_background"
    )


def test_headers_alone_say_that_nothing_is_known() -> None:
    fingerprint = scans(replace(case(FILLED), intensities=()))
    voxels = reasons(make_plan(fingerprint), fingerprint)["statistics_over, channel 0"]
    assert voxels.why == "nothing is known of the scans' intensities"
    assert voxels.numbers == "above_air suits 0, above_background suits 0, all suits 0 of 1 scans"


def test_the_numbers_of_a_window_are_explained() -> None:
    fingerprint = ct(Foreground(-96, 215, 80, 40))
    plan = make_plan(fingerprint)
    scale = reasons(plan, fingerprint)["window_mean_sd, channel 0"]
    assert (scale.value, scale.numbers) == ("80 +- 40", "structures: 80 +- 40")
    assert scale.why == "mean and standard deviation of the labelled structures"
    by_hand = plan.model_copy(update={"window_mean_sd": ((10.0, 20.0),)})
    scale = reasons(by_hand, fingerprint)["window_mean_sd, channel 0"]
    assert scale.why == "set by hand or by --paper-data; from the data it would be 80 x 40"
    unknown = make_plan(ct(), overrides={"window": (-125, 275)})
    scale = reasons(unknown, ct())["window_mean_sd, channel 0"]
    assert (scale.value, scale.numbers) == ("75 +- 100", "")
    assert scale.why == "not stated: the centre of the window and a quarter of its width"


def test_a_plan_with_a_range_says_that_a_new_one_would_not() -> None:
    fingerprint = scans(case(STRIPPED))
    plan = make_plan(fingerprint, overrides={"normalisation": "range"})
    found = reasons(plan, fingerprint)
    assert found["normalisation"].value == "range"
    assert found["normalisation"].why.endswith("a new plan has zscore")
    assert found["normalisation"].numbers == "intensities become 0 to 1"
    assert "statistics_over, channel 0" not in found
