from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tracoco.errors import UserError
from tracoco.files import digest
from tracoco.project.case_statistics import CaseStatistics, Intensities
from tracoco.project.fingerprint import Fingerprint, Foreground, LabelValue
from tracoco.project.plan import Plan, read_plan, write_plan
from tracoco.project.planner import make_plan

FINGERPRINT = Fingerprint(
    cases=(
        CaseStatistics("a", (100, 120, 30), (1.0, 1.0, 4.0), 2),
        CaseStatistics("b", (100, 120, 30), (1.0, 1.0, 5.0), 2),
        CaseStatistics("c", (240, 240, 20), (0.5, 0.5, 6.0), 2),
    ),
    labels=(LabelValue(7, 5, 1), LabelValue(255, 9, 2)),
)


def changed(plan: Plan, **values: Any) -> Plan:
    return Plan.model_validate(plan.model_dump() | values)


def test_a_plan_in_3d() -> None:
    plan = make_plan(FINGERPRINT)
    assert plan.dimensions == 3
    assert plan.channels == 2
    assert plan.label_values == (0, 7, 255)
    assert plan.class_names == ("background", "label 7", "label 255")
    assert plan.classes == 3
    # Slices are few and thick: the 10th percentile of 4, 5 and 6 mm, so that few are left out.
    assert plan.spacing_mm == (1.0, 1.0, 4.2)
    assert plan.slice_axis is None
    # Lengths: 100, 120 (the third scan has 120, 120) and 29, 36, 29 slices of 4.2 mm.
    # 2/3 of 100, 120 and 29 are 66.7, 80 and 19.3.
    assert plan.crop == (64, 80, 16)
    # 4.2 mm are more than twice 1 and 2 mm, and then no more than 4 mm.
    assert plan.strides == ((2, 2, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2))
    # 64^3 are 3.2 times 64 x 80 x 16 voxels.
    assert plan.batch == (3, 3)
    assert plan.window == (None, None)


def test_a_plan_in_2d_puts_the_thickest_axis_first() -> None:
    plan = make_plan(FINGERPRINT, dimensions=2)
    assert plan.slice_axis == 2
    assert plan.stored_axes == (2, 0, 1)
    assert plan.spacing_mm == (5.0, 1.0, 1.0)
    assert plan.crop == (1, 64, 80)
    assert plan.strides == ((2, 2),) * 4
    assert plan.batch == (4, 4)


def test_sizes_that_are_known_better_are_kept_and_the_others_go_with_them() -> None:
    plan = make_plan(FINGERPRINT, overrides={"crop": (32, 32, 12)})
    # 32 / 8 = 4 and no further; slices of 4.2 mm wait twice, then 12 / 2 = 6.
    assert plan.strides == ((2, 2, 1), (2, 2, 1), (2, 2, 2))
    assert plan.batch == (4, 4)
    flat = {"strides": ((2, 2, 2),), "batch": (1, 5)}
    assert make_plan(FINGERPRINT, overrides=flat).crop == (64, 80, 16)
    assert make_plan(FINGERPRINT, overrides=flat).strides == ((2, 2, 2),)
    assert make_plan(FINGERPRINT, overrides=flat).batch == (1, 5)
    with pytest.raises(UserError, match=r"the plan: strides = .*each level needs 3 numbers"):
        make_plan(FINGERPRINT, overrides={"strides": ((2, 2),)})


def test_slices_as_scanned_wait_by_the_median_of_the_scans() -> None:
    plan = make_plan(FINGERPRINT, overrides={"spacing_mm": (1, 1, None), "crop": (64, 80, 16)})
    # The median is 5 mm: longer than twice 1 and 2 mm, not than twice 4 mm.
    assert plan.strides == ((2, 2, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2))


def test_little_memory_makes_the_batch_smaller_and_then_the_crop() -> None:
    def sizes(memory_gb: float) -> tuple[tuple[int, ...], tuple[int, int]]:
        plan = make_plan(FINGERPRINT, dimensions=2, memory_gb=memory_gb)
        return plan.network_crop, plan.batch

    # 64 x 80 voxels x (16 x (5 + 8 x 0.9375) + 5 x 3 classes) x 4 bytes are 4.40 MB a pass, n + n
    # crops 10 n passes, and the weights 46.9 MB.
    assert sizes(0.23) == ((64, 80), (4, 4))
    assert sizes(0.2) == ((64, 80), (3, 3))
    assert sizes(0.14) == ((64, 80), (2, 2))
    assert sizes(0.12) == ((64, 64), (2, 2))


def test_a_plan_from_before_there_were_levels_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    write_plan(path, make_plan(FINGERPRINT))
    blocks = path.read_text().split("\n\n")
    names = ("strides", "batch", "filters", "steps", "precision")
    old = [block for block in blocks if not any(f"\n{name}:" in block for name in names)]
    assert len(old) == len(blocks) - 5
    path.write_text("\n\n".join(old))
    plan = read_plan(path)
    assert (plan.strides, plan.batch) == ((), (2, 2))
    assert (plan.filters, plan.steps, plan.precision) == (None, None, None)


@pytest.mark.parametrize(
    ("spacing", "axis"),
    [((1, 1, 1), 2), ((1, 3, 1), 1), ((3, 1, 1), 0), ((3, 1, 3), 2), ((1.00001, 1, 1), 2)],
)
def test_the_slice_axis_is_the_last_unless_another_is_thicker(
    spacing: tuple[float, float, float], axis: int
) -> None:
    facts = Fingerprint((CaseStatistics("a", (32, 32, 32), spacing, 1),), (LabelValue(1, 1, 1),))
    assert make_plan(facts, dimensions=2).slice_axis == axis


def test_what_is_known_better_is_kept_and_the_rest_goes_with_it() -> None:
    plan = make_plan(FINGERPRINT, overrides={"spacing_mm": (2, 2, 5), "window": (-125, 275)})
    assert plan.spacing_mm == (2, 2, 5)
    assert plan.window == ((-125, 275), (-125, 275))
    # Lengths of 50, 60 and 24: 2/3 are 33.3, 40 and 16.
    assert plan.crop == (32, 32, 16)
    flat = make_plan(FINGERPRINT, overrides={"dimensions": 2, "slice_axis": 0})
    assert (flat.stored_axes, flat.spacing_mm) == ((0, 1, 2), (1.0, 1.0, 5.0))
    assert make_plan(FINGERPRINT, overrides={"crop": (8, 8, 8)}).crop == (8, 8, 8)
    named = make_plan(FINGERPRINT, overrides={"class_names": ("background", "a", "b")})
    assert named.class_names == ("background", "a", "b")


def test_values_that_a_plan_cannot_have_are_refused_by_name() -> None:
    with pytest.raises(UserError, match="'windows' is not a setting; did you mean 'window'"):
        make_plan(FINGERPRINT, overrides={"windows": (0, 1)})
    with pytest.raises(UserError, match="2 names for 3 label values"):
        make_plan(FINGERPRINT, overrides={"class_names": ("background", "a")})


@pytest.mark.parametrize(
    ("name", "value"),
    [("window", 5), ("window_mean_sd", True), ("statistics_over", 0.5), ("channels", 10**30)],
)
def test_absurd_values_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(UserError, match=name):
        make_plan(FINGERPRINT, overrides={name: value})


def test_little_memory_makes_the_crop_smaller_and_never_too_small() -> None:
    roomy, tight, none = (make_plan(FINGERPRINT, memory_gb=gb).crop for gb in (99, 0.55, 0.001))
    assert roomy == (64, 80, 16)
    # Two levels leave the slices alone: 20 passes x (16 x (5 + 8 x (2/4 + 4/16 + 8/128)) + 5 x 3)
    # x 4 bytes a voxel and 141 MB of weights, so that 0.55 GB are 25,700 voxels. The longest axis
    # is cut first, the thin one is kept.
    assert tight == (32, 48, 16)
    assert none == (32, 32, 16)


def scans_like(lowest: float, *, integers: bool, count: int = 2, others: int = 1) -> Fingerprint:
    def facts(id_: str, low: float) -> CaseStatistics:
        values = Intensities(low, 3000, 0, (low, 0, 0, 0, 2000), integers=integers)
        return CaseStatistics(id_, (64, 64, 64), (1, 1, 1), 1, intensities=(values,))

    cases = [facts(f"ct{n}", lowest) for n in range(count)] + [facts("mr", 0)] * others
    return Fingerprint(tuple(cases), (LabelValue(1, 9, 2),), (Foreground(-96, 215, 80, 40),))


def test_a_ct_is_clipped_at_what_its_structures_have() -> None:
    assert make_plan(scans_like(-1024, integers=True)).window == ((-96, 215),)


@pytest.mark.parametrize(
    "other",
    [
        scans_like(-499, integers=True),  # no air
        scans_like(-1024, integers=False),  # no Hounsfield units
        scans_like(-1024, integers=True, count=1),  # one scan of two is not most of them
    ],
)
def test_other_scans_have_no_window(other: Fingerprint) -> None:
    assert make_plan(other).window == (None,)


def test_a_ct_without_labelled_structures_has_no_window() -> None:
    ct = scans_like(-1024, integers=True)
    assert make_plan(Fingerprint(ct.cases, ct.labels)).window == (None,)


@pytest.mark.parametrize(
    ("shape", "axis"), [((10, 256, 216), 0), ((256, 10, 216), 1), ((32, 32, 32), 2)]
)
def test_without_spacing_slices_are_counted_along_the_axis_of_the_fewest(
    shape: tuple[int, int, int], axis: int
) -> None:
    case = CaseStatistics("a", shape, (1, 1, 1), 1, has_geometry=False)
    facts = Fingerprint((case,), (LabelValue(1, 1, 1),))
    assert make_plan(facts, dimensions=2).slice_axis == axis


def test_scans_that_do_not_state_their_spacing_have_no_say_in_it() -> None:
    known = CaseStatistics("a", (64, 64, 64), (0.8, 0.8, 2.0), 1)
    unknown = [CaseStatistics(id_, (64, 64, 64), (1, 1, 1), 1, has_geometry=False) for id_ in "bcd"]
    facts = Fingerprint((known, *unknown), (LabelValue(1, 1, 1),))
    assert make_plan(facts).spacing_mm == (0.8, 0.8, 2.0)
    assert make_plan(Fingerprint(tuple(unknown), facts.labels)).spacing_mm == (1, 1, 1)


def test_thick_slices_are_never_made_finer_than_the_other_axes() -> None:
    cases = [
        CaseStatistics(str(n), (200, 200, 20), (1, 1, side), 1)
        for n, side in enumerate((0.5, 5, 5))
    ]
    # The 10th percentile of 0.5, 5 and 5 is 1.4; with 0.5 twice as often it is below 1.
    assert make_plan(Fingerprint(tuple(cases), (LabelValue(1, 1, 1),))).spacing_mm == (1, 1, 1.4)
    fine = [*cases[:1], *cases, *cases[1:]]
    assert make_plan(Fingerprint(tuple(fine), (LabelValue(1, 1, 1),))).spacing_mm == (1, 1, 1)


def test_long_voxels_that_are_many_are_no_thick_axis() -> None:
    cases = [CaseStatistics(f"{side}", (90, 90, 80), (1, 1, side), 1) for side in (4, 5, 6)]
    assert make_plan(Fingerprint(tuple(cases), (LabelValue(1, 1, 1),))).spacing_mm == (1, 1, 5)


def test_the_stored_shape_keeps_the_size_in_millimetres(plan: Plan) -> None:
    # 10 mm, 12 mm and 9 mm in voxels of 1, 2 and 3 mm.
    assert plan.stored_shape((5, 12, 9), (2, 1, 1)) == (10, 6, 3)
    assert plan.stored_shape((1, 1, 1), (0.1, 0.1, 0.1)) == (1, 1, 1)


def test_an_axis_without_a_spacing_keeps_its_voxels(plan: Plan, tmp_path: Path) -> None:
    plan = changed(plan, spacing_mm=(None, 2, None))
    assert plan.stored_shape((5, 12, 9), (2, 1, 1)) == (5, 6, 9)
    flat = changed(plan, dimensions=2, slice_axis=2, crop=(1, 8, 8), spacing_mm=(5, None, 2))
    assert flat.stored_shape((5, 12, 9), (2, 1, 10)) == (9, 5, 6)
    write_plan(tmp_path / "plan.yaml", plan)
    assert "\nspacing_mm: [null, 2.0, null]\n" in (tmp_path / "plan.yaml").read_text()
    assert read_plan(tmp_path / "plan.yaml") == plan
    with pytest.raises(ValidationError, match="greater than 0"):
        changed(plan, spacing_mm=(None, 0, None))


def test_a_crop_goes_by_the_voxels_that_scans_have_where_they_stay_as_they_are() -> None:
    cases = FINGERPRINT.cases[1:]
    two = replace(FINGERPRINT, cases=cases)
    plan = make_plan(two, 2, overrides={"spacing_mm": (None, None, None)}, memory_gb=99)
    assert plan.spacing_mm == (None, None, None)
    # The median of 100 and 240 voxels is 170, that of 120 and 240 is 180: 2/3 are 113 and 120.
    assert plan.crop == (1, 112, 112)
    # At their median of 0.75 mm they have 133 and 160, 160 and 160: 2/3 are 98 and 107.
    assert make_plan(two, 2, memory_gb=99).crop == (1, 96, 96)


def test_a_crop_goes_by_the_content_where_it_is_known() -> None:
    case = CaseStatistics("a", (240, 240, 155), (1, 1, 1), 1, content_shape=(144, 96, 120))
    known = Fingerprint((case,), (LabelValue(1, 1, 1),))
    # 2/3 are 96, 64 and 80.
    assert make_plan(known, memory_gb=99).crop == (96, 64, 80)
    entire = make_plan(known, overrides={"crop_to_content": False}, memory_gb=99)
    assert entire.crop != (96, 64, 80)
    # A spacing is chosen by whole scans: 3 times fewer slices would be a thick axis.
    assert make_plan(known).spacing_mm == entire.spacing_mm == (1, 1, 1)


def test_slices_are_never_resampled_across(plan: Plan) -> None:
    flat = changed(plan, dimensions=2, slice_axis=2, crop=(1, 8, 8), spacing_mm=(5, 1, 2))
    # 9 slices stay 9, though they are 10 mm and not 5 mm apart.
    assert flat.stored_shape((5, 12, 9), (2, 1, 10)) == (9, 10, 6)


def test_only_what_changes_the_store_changes_the_hash(plan: Plan) -> None:
    assert plan.hash() == changed(plan, crop=(8, 8, 8), class_names=("a", "b", "c")).hash()
    assert plan.hash() == changed(plan, strides=((2, 2, 2),), batch=(1, 7)).hash()
    assert plan.hash() == changed(plan, filters=32, steps=7, precision="bf16").hash()
    assert plan.hash() == changed(plan, mirror_axes=(0, 1)).hash()
    for values in (
        {"spacing_mm": (1, 2, 4)},
        {"spacing_mm": (1, 2, None)},
        {"high_percentile": 99},
        {"crop_to_content": True},
        {"rescale": False},
        {"resize_slices": True},
        {"window": [[0, 1]]},
        {"normalisation": "zscore"},
        {"label_values": (0, 300, 7)},
        {"dimensions": 2, "slice_axis": 0, "crop": (1, 16, 16)},
    ):
        assert plan.hash() != changed(plan, **values).hash()


def test_a_plan_from_before_scans_were_cropped_stays_what_it_was(
    tmp_path: Path, plan: Plan
) -> None:
    path = tmp_path / "plan.yaml"
    write_plan(path, make_plan(FINGERPRINT))
    assert read_plan(path).crop_to_content
    path.write_text(path.read_text().replace("crop_to_content: true\n", ""))
    assert not read_plan(path).crop_to_content
    later = {"crop_to_content", "rescale", "resize_slices", "filters", "steps", "precision"}
    later |= {"mirror_axes", "ignore_label", "class_colours"}
    later |= {"normalisation", "statistics_over", "window_mean_sd"}
    known = plan.model_dump(
        mode="json", exclude={"crop", "strides", "batch", "class_names", *later}
    )
    assert plan.hash() == digest(known)


def test_a_plan_is_written_with_comments_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    for dimensions in (2, 3):
        values = {"low_percentile": 1e-5, "window": (None, (-125.0, 275.0))}
        plan = changed(make_plan(FINGERPRINT, dimensions), **values)
        write_plan(path, plan)
        assert read_plan(path) == plan
    blocks = path.read_text().split("\n\n")
    assert len(blocks) == len(Plan.model_fields)
    assert all(block.startswith("# ") for block in blocks)
    assert "\nspacing_mm: [1.0, 1.0, 4.2]\n" in path.read_text()
    assert "\nwindow: [null, [-125.0, 275.0]]\n" in path.read_text()
    assert max(map(len, path.read_text().splitlines())) <= 100


def test_one_window_written_by_hand_is_for_all_channels(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    write_plan(path, make_plan(FINGERPRINT))
    text = path.read_text()
    path.write_text(text.replace("window: [null, null]", "window: [-125, 275]"))
    assert read_plan(path).window == ((-125, 275), (-125, 275))
    path.write_text(text.replace("window: [null, null]\n", ""))  # a plan from before there was one
    assert read_plan(path).window == (None, None)


def test_a_misspelt_key_names_the_nearest(tmp_path: Path, plan: Plan) -> None:
    write_plan(tmp_path / "plan.yaml", plan)
    text = (tmp_path / "plan.yaml").read_text()
    (tmp_path / "plan.yaml").write_text(text.replace("spacing_mm:", "spacing:"))
    with pytest.raises(UserError, match=r"plan\.yaml: 'spacing' .*did you mean 'spacing_mm'"):
        read_plan(tmp_path / "plan.yaml")


def test_a_plan_that_is_no_yaml_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("crop: [1, 2\nchannels: 1")
    with pytest.raises(UserError, match=r"plan\.yaml is not valid YAML") as error:
        read_plan(tmp_path / "plan.yaml")
    assert "\n" not in str(error.value)


def test_a_missing_or_empty_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_plan(tmp_path / "plan.yaml")
    (tmp_path / "plan.yaml").write_text("")
    with pytest.raises(UserError, match=r"plan\.yaml"):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"label_values": (1, 2, 3)}, "must be 0 and then"),
        ({"label_values": (0, 7, 7)}, "must be 0 and then"),
        ({"label_values": (0,), "class_names": ("b",)}, "must be 0 and then"),
        ({"class_names": ("a", "b")}, "2 names for 3 label values"),
        ({"slice_axis": 1}, "must be null where dimensions = 3"),
        ({"dimensions": 2, "crop": (1, 8, 8)}, "0, 1 or 2 where it is 2"),
        ({"dimensions": 2, "slice_axis": 1}, "must start with 1"),
        ({"spacing_mm": (1, 0, 1)}, "greater than 0"),
        ({"low_percentile": 60, "high_percentile": 40}, "above low_percentile"),
        ({"window": [[1, 1]]}, "low must be below high"),
        ({"window": [None, [0, 1]]}, "2 entries for 1 channels"),
        ({"window_mean_sd": [None, [0, 1]]}, "2 entries for 1 channels"),
        ({"window_mean_sd": [[0, 0]]}, "greater than 0"),
        ({"statistics_over": ["all", "all"]}, "2 entries for 1 channels"),
        ({"statistics_over": "nonzero"}, "above_air"),
        ({"normalisation": "minmax"}, "zscore"),
        ({"dimensions": 4}, "2 or 3"),
        ({"strides": ((2, 2),)}, "each level needs 3 numbers"),
        ({"strides": ((2, 3, 2),)}, "halves some axes"),
        ({"strides": ((2, 2, 2), (1, 1, 1))}, "halves some axes"),
        (
            {"strides": ((2, 2, 2), (1, 2, 2)), "crop": (6, 16, 6)},
            r"6 voxels along axis 2 do not make 2 or more of 4 each; for crop \[6, 16, 6\] write "
            # Of 1 x 2 x 3 mm; 3 mm wait for 1 mm, and 3 voxels are not halved.
            r"\[\[2, 2, 1\], \[1, 2, 2\]\]",
        ),
        ({"strides": ((2, 2, 2),) * 4}, "16 voxels along axis 0 do not make 2 or more of 16"),
        ({"strides": ((2, 2, 2),), "crop": (5, 5, 5)}, "make two axes of it even and longer"),
        ({"batch": (0, 2)}, "greater than 0"),
        ({"mirror_axes": (3,)}, "0, 1 or 2"),
        ({"mirror_axes": (1, 1)}, "each axis once"),
        (
            {"dimensions": 2, "slice_axis": 1, "crop": (1, 8, 8), "mirror_axes": (0,)},
            "slices come one at a time",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(
    plan: Plan, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        changed(plan, **values)
