"""The figures and warnings at the top."""

from typing import TYPE_CHECKING

from tracoco.evaluation.scores import Protocol
from tracoco.project.splits import Splits
from tracoco.reporting.headline import tiles, unfinished_note, warnings
from tracoco.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_tiles_of_an_evaluated_run(bench: "Bench") -> None:
    run = bench.run()
    bench.scores(run)
    shown = {tile.title: (tile.figure, tile.about) for tile in tiles(RunRecord.read(run))}
    # Dice 100, 66.7 and 0: mean 55.6, deviation 50.9. HD95: the shifted cube is 1 mm off in x,
    # found and shifted have 0 and 1, mean 0.5. Thirty steps of two seconds.
    assert shown == {
        "Dice, %": ("55.6", "± 50.9, test, 3 cases"),
        "HD95, mm": ("0.50", "without 1 missed or spurious"),
        "missed": ("1", "of 3 structures"),
        "steps": ("30", "all done"),
        "labelled scans": ("2", "and 3 without"),
        "time in steps": ("1 min", "2 s a step"),
    }


def test_tiles_without_scores_say_so(bench: "Bench") -> None:
    shown = tiles(RunRecord.read(bench.run(log=[])))
    assert [tile.figure for tile in shown] == ["–", "–", "–", "0", "2", "–"]  # noqa: RUF001 - dashes for what is unknown
    assert shown[0].about == "not evaluated yet"


def test_the_papers_rule_for_empty_masks_is_named(bench: "Bench") -> None:
    run = bench.run()
    bench.scores(run, protocol=Protocol(units="voxel", empty="zero"))
    hd95 = tiles(RunRecord.read(run))[1]
    assert (hd95.title, hd95.about) == ("HD95, voxel", "empty masks count as 0")


def test_a_collapse_is_a_warning_with_its_steps(bench: "Bench") -> None:
    log = [
        bench.record(step, **({"collapsed": ["organ"]} if 4 <= step < 8 else {}))
        for step in range(30)
    ]
    (warning,) = warnings(RunRecord.read(bench.run(log=log)))
    assert "from step 4 to 7: there, 'organ' was all but absent" in warning


def test_structures_that_fade_are_a_warning(bench: "Bench") -> None:
    log = [bench.record(step, **({"fading": ["organ"]} if step >= 6 else {})) for step in range(30)]
    training = {"steps": 30, "unlabelled_weight": "scheduled"}
    (warning,) = warnings(RunRecord.read(bench.run(log=log, training=training)))
    assert warning.startswith(
        "The pseudo-labels had less and less of 'organ', seen first at step 6;"
    )


def counting(weight: float, agreement: float) -> dict[str, dict[str, float]]:
    doubted = 0 < weight < 1
    told = {"weight": weight, "known": 0.9, "agreement": agreement, "doubted": doubted}
    return {"unlabelled": told}


def test_answers_that_disagree_are_a_warning_with_their_dice(bench: "Bench") -> None:
    # Ten steps in which nothing counts yet, ten with Dice 0.7, and ten that count in full.
    stages = [counting(0.0, 0.2)] * 10 + [counting(0.3, 0.7)] * 10 + [counting(1.0, 0.95)] * 10
    log = [bench.record(step, **stage) for step, stage in enumerate(stages)]
    (warning,) = warnings(RunRecord.read(bench.run(log=log)))
    assert "counted less during 10 steps because the two networks disagreed on them" in warning
    assert "their mean Dice was 70 (" in warning


def test_agreement_of_networks_that_taught_each_other_is_not_what_is_told(bench: "Bench") -> None:
    stages = [counting(0.0, 0.2)] * 10 + [counting(0.3, 0.7)] * 10 + [counting(0.3, 0.95)] * 10
    log = [bench.record(step, **stage) for step, stage in enumerate(stages)]
    (warning,) = warnings(RunRecord.read(bench.run(log=log)))
    assert "counted less during 20 steps" in warning
    assert "their mean Dice was 70 (" in warning


def test_labelled_crops_that_are_forgotten_are_a_warning(bench: "Bench") -> None:
    told = {"weight": 1.0, "known": 0.8, "agreement": 0.95}
    forgotten = {"unlabelled": {**told, "forgotten": True}}
    stages = [{"unlabelled": told}] * 10 + [forgotten] * 7
    log = [bench.record(step, **stage) for step, stage in enumerate(stages)]
    (warning,) = warnings(RunRecord.read(bench.run(log=log)))
    assert "during 7 steps because the Dice on labelled crops fell" in warning


def test_unlabelled_scans_that_never_counted_are_a_warning(bench: "Bench") -> None:
    log = [bench.record(step, **counting(0.0, 0.2)) for step in range(30)]
    (warning,) = warnings(RunRecord.read(bench.run(log=log)))
    assert warning.startswith("Unlabelled scans never counted")


def test_scores_on_training_cases_are_a_warning(bench: "Bench") -> None:
    run = bench.run(splits=Splits(("found",), (), (), ()))
    bench.scores(run)
    (warning,) = warnings(RunRecord.read(run))
    assert warning.startswith("The scores of 'test' are no test of new scans")


def test_a_sound_run_has_no_warning_and_no_note(bench: "Bench") -> None:
    run = RunRecord.read(bench.run())
    assert (warnings(run), unfinished_note(run)) == ([], None)


def test_an_unfinished_run_says_how_far_it_is(bench: "Bench") -> None:
    note = unfinished_note(RunRecord.read(bench.run(log=[bench.record(0)])))
    assert note is not None
    assert "step 1 of 30" in note


def test_hidden_labels_stand_by_the_labelled_scans(bench: "Bench") -> None:
    shown = {tile.title: tile.about for tile in tiles(RunRecord.read(bench.run(hidden_labels=2)))}
    assert shown["labelled scans"] == "and 3 without; 2 labels hidden"


def test_a_watermark_stands_by_the_dice_and_is_a_warning(bench: "Bench") -> None:
    run = bench.run()
    bench.scores(run, watermark="no estimate")
    record = RunRecord.read(run)
    assert tiles(record)[0].about == "± 50.9, test, 3 cases; no estimate"
    assert warnings(record) == ["The scores of 'test' are no test of new scans: no estimate."]


def test_a_run_that_chooses_on_test_cases_warns_without_any_scores(bench: "Bench") -> None:
    run = bench.run(training={"steps": 30, "select_on": "test"})
    (warning,) = warnings(RunRecord.read(run))
    assert "best was chosen on the test cases" in warning
