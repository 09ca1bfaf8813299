from dataclasses import replace

from tracoco.project.case_statistics import CaseStatistics, Intensities
from tracoco.project.explain import Explanation, explain_plan, plans_by_memory
from tracoco.project.explain_values import Reason
from tracoco.project.fingerprint import Fingerprint, Foreground, LabelValue
from tracoco.project.plan import Plan
from tracoco.project.planner import make_plan, stored_shapes


def ct(
    id_: str, shape: tuple[int, int, int], side: float, *, has_geometry: bool = True
) -> CaseStatistics:
    values = Intensities(-1024, 3000, 0, (-1000, -900, 0, 500, 2000), integers=True)
    return CaseStatistics(
        id_, shape, (side, side, side), 1, has_geometry=has_geometry, intensities=(values,)
    )


FINGERPRINT = Fingerprint(
    cases=(ct("a", (96, 96, 96), 1.0), ct("b", (96, 96, 96), 1.0), ct("c", (48, 48, 12), 2.0)),
    labels=(LabelValue(0, 990, 2), LabelValue(7, 10, 1)),
    foreground=(Foreground(-96, 215, 80, 40),),
)
PLAN = make_plan(FINGERPRINT, memory_gb=99)


def named(explanation: Explanation, name: str) -> Reason:
    (found,) = [reason for reason in explanation.reasons if reason.name == name]
    return found


def test_mirroring_is_left_to_a_person() -> None:
    reason = named(explain_plan(PLAN, FINGERPRINT, 99), "mirror_axes")
    assert (reason.value, "set it by hand" in reason.why) == ("none", True)
    allowed = PLAN.model_copy(update={"mirror_axes": (0, 2)})
    reason = named(explain_plan(allowed, FINGERPRINT, 99), "mirror_axes")
    assert (reason.value, reason.why) == ("0, 2", "set by hand or by --paper-data")


def test_every_derived_value_has_a_reason_and_its_numbers() -> None:
    explanation = explain_plan(PLAN, FINGERPRINT, 99)
    spacing = named(explanation, "spacing_mm")
    assert (spacing.value, spacing.why) == ("1 x 1 x 1", "median of the scans")
    assert spacing.numbers == "3 scans of 1-2 x 1-2 x 1-2 mm"
    window = named(explanation, "window, channel 0")
    assert window.value == "-96 to 215"
    assert window.why.startswith("looks like CT")
    assert window.numbers == ("3 of 3 scans have whole numbers down to air; structures: 80 +- 40")
    crop = named(explanation, "crop")
    assert crop.value == "64 x 64 x 64"
    assert "cut" not in crop.why
    assert "median scan 96 x 96 x 96 voxels" in crop.numbers
    organ = named(explanation, "class 1")
    assert (organ.value, organ.numbers) == ("label 7 (7)", "in 1 cases, 1 % of voxels")


def test_values_of_a_person_are_told_apart() -> None:
    values = {"spacing_mm": (2, 2, 2), "crop": (16, 16, 16), "window": (None,), "batch": (1, 4)}
    plan = Plan.model_validate(PLAN.model_dump() | values | {"strides": ((2, 2, 1),)})
    explanation = explain_plan(plan, FINGERPRINT, 99)
    by_hand = "set by hand or by --paper-data; from the data it would be"
    assert named(explanation, "spacing_mm").why == f"{by_hand} 1 x 1 x 1"
    assert named(explanation, "window, channel 0").why == f"{by_hand} -96 x 215"
    # At 2 mm a scan has 48 voxels, of which 32 are two thirds.
    assert named(explanation, "crop").why == f"{by_hand} 32 x 32 x 32"
    # What goes with a crop of 16 voxels, not with one of 32.
    assert named(explanation, "strides").why == (
        "set by hand or by --paper-data; from the crop 3 levels: 2 x 2 x 2, 2 x 2 x 2"
    )
    assert (
        named(explanation, "strides").numbers == "coarsest level: 8 x 8 x 16 voxels of 4 x 4 x 2 mm"
    )
    assert named(explanation, "batch").why == f"{by_hand} 4 x 4"
    assert named(explanation, "batch").value == "1 labelled, 4 unlabelled"
    # 2 x (2 x (1 + 4) + 4) passes.
    assert named(explanation, "batch").numbers.startswith("28 passes of a step: ")


def test_the_depth_of_the_network_and_the_batch_have_their_reasons() -> None:
    explanation = explain_plan(PLAN, FINGERPRINT, 99)
    depth = named(explanation, "strides")
    assert depth.value == "5 levels: 2 x 2 x 2, 2 x 2 x 2, 2 x 2 x 2, 2 x 2 x 2"
    assert depth.why.startswith("each level of light-unet halves the axes")
    assert depth.numbers == "coarsest level: 4 x 4 x 4 voxels of 16 x 16 x 16 mm"
    batch = named(explanation, "batch")
    assert batch.value == "2 labelled, 2 unlabelled"
    assert batch.why == "about 262144 voxels of each kind, in 2 to 4 crops"
    assert batch.numbers == "20 passes of a step: 2.9 GB"
    small = make_plan(FINGERPRINT, overrides={"crop": (32, 32, 32)}, memory_gb=0.6)
    # 17.3 MB a pass: 4 + 4 crops are 40 passes and 0.69 GB, 3 + 3 are 30 and 0.52 GB.
    assert small.batch == (3, 3)
    assert "fewer for at most 0.6 GB" in named(explain_plan(small, FINGERPRINT, 0.6), "batch").why


def test_slices_as_scanned_and_a_plan_without_levels_are_said_to_be_so() -> None:
    scanned = PLAN.model_copy(update={"spacing_mm": (1, 1, None)})
    numbers = named(explain_plan(scanned, FINGERPRINT, 99), "strides").numbers
    assert numbers == "coarsest level: 4 x 4 x 4 voxels of 16 x 16 x as scanned mm"
    old = named(explain_plan(PLAN.model_copy(update={"strides": ()}), FINGERPRINT, 99), "strides")
    assert old.value == "the network's own"
    assert old.why.startswith(
        "not stated: three levels that halve all axes; from the crop 5 levels"
    )


def test_margins_that_are_left_out_are_measured() -> None:
    # Half of the first and of the last scan is margin; the other has none.
    content = ((48, 96, 96), (96, 96, 96), (24, 48, 12))
    cases = tuple(
        replace(case, content_shape=shape)
        for case, shape in zip(FINGERPRINT.cases, content, strict=True)
    )
    known = replace(FINGERPRINT, cases=cases)
    explanation = explain_plan(PLAN, known, 99)
    margin = named(explanation, "crop_to_content")
    assert margin.value == "true"
    assert margin.why.startswith("a margin in which nothing changes")
    assert margin.numbers == "without it 50-100 % of a scan's voxels are left"
    # At 1 mm: 48, 96 and 48 along the first axis, of which 48 is the median.
    assert "median scan 48 x 96 x 96 voxels" in named(explanation, "crop").numbers
    assert any("along axis 0 in 2 of 3 scans" in line for line in explanation.warnings)
    entire = PLAN.model_copy(update={"crop_to_content": False})
    explanation = explain_plan(entire, known, 99)
    margin = named(explanation, "crop_to_content")
    assert margin.why == "set by hand or by --paper-data; from the data it would be true"
    assert "median scan 96 x 96 x 96 voxels" in named(explanation, "crop").numbers
    assert not any("along axis 0" in line for line in explanation.warnings)


def test_axes_that_are_not_resampled_are_as_scanned() -> None:
    plan = PLAN.model_copy(update={"spacing_mm": (None, None, 2.0)})
    spacing = named(explain_plan(plan, FINGERPRINT, 99), "spacing_mm")
    assert spacing.value == "as scanned x as scanned x 2"
    assert "from the data it would be 1 x 1 x 1" in spacing.why
    # c has 48 x 48 voxels of 2 mm, and keeps them; its 12 slices of 2 mm stay 12.
    assert stored_shapes(plan, FINGERPRINT) == [(96, 96, 48), (96, 96, 48), (48, 48, 12)]


def test_a_crop_that_was_cut_says_for_what() -> None:
    assert "cut for at most 1 GB of memory" in crop_reason(FINGERPRINT, 1)
    large = Fingerprint((ct("a", (512, 512, 512), 1.0),), FINGERPRINT.labels)
    assert "cut for at most 884736 voxels, for time" in crop_reason(large, 99)


def crop_reason(fingerprint: Fingerprint, memory_gb: float) -> str:
    plan = make_plan(fingerprint, memory_gb=memory_gb)
    return named(explain_plan(plan, fingerprint, memory_gb), "crop").why


def test_slices_say_why_they_lie_along_their_axis() -> None:
    thick = Fingerprint((ct("a", (10, 64, 64), 1.0, has_geometry=False),), FINGERPRINT.labels)
    explanation = explain_plan(make_plan(thick, 2), thick, 99)
    axis = named(explanation, "slice_axis")
    assert axis.value == "0"
    assert axis.numbers.startswith("axis 0: 1 mm, 10 voxels; axis 1: 1 mm, 64 voxels")
    assert "not resampled" in named(explanation, "spacing_mm").why
    assert any("1 of 1 scans do not state their spacing" in line for line in explanation.warnings)


def test_missing_room_to_translate_is_told() -> None:
    small = Fingerprint(
        (*FINGERPRINT.cases, ct("d", (40, 40, 40), 1.0)), FINGERPRINT.labels, FINGERPRINT.foreground
    )
    warnings = explain_plan(PLAN, small, 99).warnings
    # c has 96 x 96 x 24 voxels of 1 mm; d is smaller than a crop along each axis.
    assert warnings == (
        "no room to translate along axis 0 in 1 of 4 scans: the crop has 64 voxels there",
        "no room to translate along axis 1 in 1 of 4 scans: the crop has 64 voxels there",
        "no room to translate along axis 2 in 2 of 4 scans: the crop has 64 voxels there",
        "1 of 4 scans are no larger than a crop: translation consistency teaches nothing on them; "
        "make crop smaller in plan.yaml",
    )


def test_too_little_memory_is_told() -> None:
    (warning,) = explain_plan(
        PLAN, Fingerprint(FINGERPRINT.cases[:2], FINGERPRINT.labels), 1
    ).warnings
    # 64^3 x (16 filters x 7.66 maps + 5 x 2 classes) x 20 passes x 4 bytes, and 0.06 of weights.
    assert "takes about 2.9 GB, more than 1 GB" in warning


def test_width_steps_and_precision_say_what_they_are_for() -> None:
    on_cpu = explain_plan(PLAN, FINGERPRINT, 99)
    assert named(on_cpu, "filters").why == "as on every CPU, for time"
    assert named(on_cpu, "filters").numbers == "channels of the levels: 16, 32, 64, 128, 256"
    assert named(on_cpu, "precision").value == "auto"
    assert named(on_cpu, "steps").numbers == "8000 pairs of crops in all"
    plan = make_plan(FINGERPRINT, memory_gb=24, device="gpu")
    on_gpu = explain_plan(plan, FINGERPRINT, 24, "gpu")
    filters = named(on_gpu, "filters")
    assert (filters.value, filters.why) == (
        *("48", "the widest of 16, 24, 32, 48 whose step fits in 20.4 GB"),
    )
    assert filters.numbers == "channels of the levels: 48, 96, 192, 320, 320"
    assert (named(on_gpu, "steps").value, named(on_gpu, "precision").value) == ("15000", "bf16")
    by_hand = "set by hand or by --paper-data; from the data it would be"
    here = explain_plan(plan, FINGERPRINT, 99)
    assert named(here, "filters").why == f"{by_hand} 16"
    assert named(here, "steps").why == f"{by_hand} 2000"


def test_a_plan_of_before_says_what_it_does_not_state() -> None:
    old = PLAN.model_copy(update={"filters": None, "steps": None, "precision": None})
    explanation = explain_plan(old, FINGERPRINT, 99)
    assert named(explanation, "filters").why == "not stated: 16; else 16"
    assert (named(explanation, "steps").value, named(explanation, "precision").value) == (
        *("2000", "auto"),
    )


def test_plans_for_other_gpus_keep_what_a_person_chose_for_the_scans() -> None:
    large = Fingerprint((ct("a", (340, 340, 340), 1.0),), FINGERPRINT.labels)
    plan = make_plan(large, overrides={"spacing_mm": (2, 2, 2)}, memory_gb=4, device="cpu")
    found = plans_by_memory(plan, large)
    assert list(found) == [8, 24, 80]
    assert {each.spacing_mm for each in found.values()} == {(2, 2, 2)}
    # 170 voxels of 2 mm, of which 112 are two thirds: the width grows alone.
    assert [each.crop for each in found.values()] == [(96, 96, 96), (112,) * 3, (112,) * 3]
    assert [each.filters for each in found.values()] == [16, 32, 48]
