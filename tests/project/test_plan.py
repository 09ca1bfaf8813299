from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tracoco.errors import UserError
from tracoco.project.fingerprint import CaseFacts, Fingerprint, LabelFacts
from tracoco.project.plan import Plan, make_plan, read_plan, write_plan

FINGERPRINT = Fingerprint(
    cases=(
        CaseFacts("a", (100, 120, 30), (1.0, 1.0, 4.0), 2),
        CaseFacts("b", (100, 120, 30), (1.0, 1.0, 5.0), 2),
        CaseFacts("c", (240, 240, 20), (0.5, 0.5, 6.0), 2),
    ),
    labels=(LabelFacts(7, 5, 1), LabelFacts(255, 9, 2)),
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
    assert plan.spacing_mm == (1.0, 1.0, 5.0)
    assert plan.slice_axis is None
    # Lengths: 100, 120 (the third scan has 120, 120) and 24, 30, 24 slices of 5 mm.
    # 2/3 of 100, 120 and 24 are 66.7, 80 and 16.
    assert plan.crop == (64, 80, 16)


def test_a_plan_in_2d_puts_the_thickest_axis_first() -> None:
    plan = make_plan(FINGERPRINT, dimensions=2)
    assert plan.slice_axis == 2
    assert plan.stored_axes == (2, 0, 1)
    assert plan.spacing_mm == (5.0, 1.0, 1.0)
    assert plan.crop == (1, 64, 80)


@pytest.mark.parametrize(
    ("spacing", "axis"),
    [((1, 1, 1), 2), ((1, 3, 1), 1), ((3, 1, 1), 0), ((3, 1, 3), 2), ((1.00001, 1, 1), 2)],
)
def test_the_slice_axis_is_the_last_unless_another_is_thicker(
    spacing: tuple[float, float, float], axis: int
) -> None:
    facts = Fingerprint((CaseFacts("a", (32, 32, 32), spacing, 1),), (LabelFacts(1, 1, 1),))
    assert make_plan(facts, dimensions=2).slice_axis == axis


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_scan_axes_undo_stored_axes(plan: Plan, axis: int | None) -> None:
    if axis is not None:
        plan = changed(plan, dimensions=2, slice_axis=axis, crop=(1, 8, 8))
    shape = (5, 6, 7)
    stored = tuple(shape[a] for a in plan.stored_axes)
    assert axis is None or stored[0] == shape[axis]
    assert tuple(stored[a] for a in plan.scan_axes) == shape


def test_the_stored_shape_keeps_the_size_in_millimetres(plan: Plan) -> None:
    # 10 mm, 12 mm and 9 mm in voxels of 1, 2 and 3 mm.
    assert plan.stored_shape((5, 12, 9), (2, 1, 1)) == (10, 6, 3)
    assert plan.stored_shape((1, 1, 1), (0.1, 0.1, 0.1)) == (1, 1, 1)


def test_slices_are_never_resampled_across(plan: Plan) -> None:
    flat = changed(plan, dimensions=2, slice_axis=2, crop=(1, 8, 8), spacing_mm=(5, 1, 2))
    # 9 slices stay 9, though they are 10 mm and not 5 mm apart.
    assert flat.stored_shape((5, 12, 9), (2, 1, 10)) == (9, 10, 6)


def test_only_what_changes_the_store_changes_the_hash(plan: Plan) -> None:
    assert plan.hash() == changed(plan, crop=(8, 8, 8), class_names=("a", "b", "c")).hash()
    for values in (
        {"spacing_mm": (1, 2, 4)},
        {"high_percentile": 99},
        {"label_values": (0, 300, 7)},
        {"dimensions": 2, "slice_axis": 0, "crop": (1, 16, 16)},
    ):
        assert plan.hash() != changed(plan, **values).hash()


def test_a_plan_is_written_with_comments_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    for dimensions in (2, 3):
        plan = changed(make_plan(FINGERPRINT, dimensions), low_percentile=1e-5)
        write_plan(path, plan)
        assert read_plan(path) == plan
    blocks = path.read_text().split("\n\n")
    assert len(blocks) == len(Plan.model_fields)
    assert all(block.startswith("# ") for block in blocks)
    assert "\nspacing_mm: [1.0, 1.0, 5.0]\n" in path.read_text()
    assert max(map(len, path.read_text().splitlines())) <= 100


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
        ({"dimensions": 4}, "2 or 3"),
    ],
)
def test_values_that_do_not_go_together_are_refused(
    plan: Plan, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        changed(plan, **values)
