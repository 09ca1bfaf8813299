from tracoco.project.explain import Explanation, Reason, explain_plan
from tracoco.project.fingerprint import Fingerprint, LabelFacts
from tracoco.project.intensities import Foreground, Intensities
from tracoco.project.look import CaseFacts
from tracoco.project.make_plan import make_plan
from tracoco.project.plan import Plan


def ct(id_: str, shape: tuple[int, int, int], side: float, *, placed: bool = True) -> CaseFacts:
    values = Intensities(-1024, 3000, 0, (-1000, -900, 0, 500, 2000), integers=True)
    return CaseFacts(id_, shape, (side, side, side), 1, placed=placed, intensities=(values,))


FINGERPRINT = Fingerprint(
    cases=(ct("a", (96, 96, 96), 1.0), ct("b", (96, 96, 96), 1.0), ct("c", (48, 48, 12), 2.0)),
    labels=(LabelFacts(0, 990, 2), LabelFacts(7, 10, 1)),
    foreground=(Foreground(-96, 215, 80, 40),),
)
PLAN = make_plan(FINGERPRINT, memory_gb=99)


def named(explanation: Explanation, name: str) -> Reason:
    (found,) = [reason for reason in explanation.reasons if reason.name == name]
    return found


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
    values = {"spacing_mm": (2, 2, 2), "crop": (16, 16, 16), "window": (None,)}
    plan = Plan.model_validate(PLAN.model_dump() | values)
    explanation = explain_plan(plan, FINGERPRINT, 99)
    by_hand = "set by hand or by a recipe; from the data it would be"
    assert named(explanation, "spacing_mm").why == f"{by_hand} 1 x 1 x 1"
    assert named(explanation, "window, channel 0").why == f"{by_hand} -96 x 215"
    # At 2 mm a scan has 48 voxels, of which 32 are two thirds.
    assert named(explanation, "crop").why == f"{by_hand} 32 x 32 x 32"


def test_a_crop_that_was_cut_says_for_what() -> None:
    assert "cut for at most 1 GB of memory" in crop_reason(FINGERPRINT, 1)
    large = Fingerprint((ct("a", (512, 512, 512), 1.0),), FINGERPRINT.labels)
    assert "cut for at most 884736 voxels, for time" in crop_reason(large, 99)


def crop_reason(fingerprint: Fingerprint, memory_gb: float) -> str:
    plan = make_plan(fingerprint, memory_gb=memory_gb)
    return named(explain_plan(plan, fingerprint, memory_gb), "crop").why


def test_slices_say_why_they_lie_along_their_axis() -> None:
    thick = Fingerprint((ct("a", (10, 64, 64), 1.0, placed=False),), FINGERPRINT.labels)
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
    # 64^3 x 16 filters x 6 maps x 1.33 x 20 passes x 4 bytes.
    assert "takes about 2.7 GB, more than 1 GB" in warning
