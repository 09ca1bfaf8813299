from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.geometry import crop_problem, form_problem, total_stride
from tracoco.project.derive import choose_strides
from tracoco.project.planner import choose_crop


@pytest.mark.parametrize(
    ("crop", "levels"),
    [
        ((32, 32, 24), 3),  # 4 x 4 x 3 are left
        ((48, 40, 24), 3),  # 6 x 5 x 3
        ((64, 64, 48), 4),  # 4 x 4 x 3
        ((96, 96, 96), 4),  # 6 x 6 x 6: no deeper than four
        ((16, 16, 16), 2),  # 4 x 4 x 4: two voxels would be too few
        ((160, 144), 4),  # 10 x 9
        ((6, 6), 1),
        ((4, 4, 4), 0),
        ((15, 15, 15), 0),
    ],
)
def test_all_axes_are_halved_while_three_voxels_are_left(
    crop: tuple[int, ...], levels: int
) -> None:
    assert choose_strides(crop, (1.0,) * len(crop)) == ((2,) * len(crop),) * levels


@pytest.mark.parametrize(
    ("crop", "spacing", "expected"),
    [
        # 10 mm wait for 1.5 and 3 mm, not for 6 mm; 12 slices end with 3.
        ((160, 160, 12), (1.5, 1.5, 10), ((2, 2, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2))),
        # Twice as long is not too long.
        ((32, 32, 32), (1, 1, 2), ((2, 2, 2),) * 3),
        ((32, 32, 32), (1, 1, 2.1), ((2, 2, 1), (2, 2, 2), (2, 2, 2))),
        # 12 slices of 1 mm come to their end at 3 voxels of 4 mm, and keep nobody waiting.
        ((64, 64, 12), (1, 1, 1), ((2, 2, 2), (2, 2, 2), (2, 2, 1), (2, 2, 1))),
        # One axis alone makes no level.
        ((64, 6, 6), (1, 1, 1), ((2, 2, 2),)),
        # Nobody waits where too few others are left to make a level.
        ((64, 64), (1, 4), ((2, 2),) * 4),
        ((20, 8), (1, 3), ((2, 2),)),
        # An axis of unknown sides is as fine as the finest that is known.
        ((32, 32, 24), (4, 1, None), ((1, 2, 2), (2, 2, 2), (2, 2, 2))),
        ((32, 32, 24), (None, None, None), ((2, 2, 2),) * 3),
    ],
)
def test_a_thick_axis_waits_until_the_others_have_caught_up(
    crop: tuple[int, ...],
    spacing: tuple[float | None, ...],
    expected: tuple[tuple[int, ...], ...],
) -> None:
    assert choose_strides(crop, spacing) == expected


@given(
    st.tuples(*[st.floats(1, 600)] * 3),
    st.tuples(*[st.floats(0.1, 12)] * 3),
    st.sampled_from((2, 3)),
)
def test_every_planned_crop_goes_with_its_levels(
    lengths: tuple[float, float, float], spacing: tuple[float, float, float], dimensions: int
) -> None:
    crop = choose_crop(lengths, dimensions, lambda crop: prod(crop) <= 96**3)[-dimensions:]
    strides = choose_strides(crop, spacing[-dimensions:])
    assert len(strides) <= 4
    assert form_problem(strides, dimensions) == crop_problem(strides, crop) == ""
    for size, step in zip(crop, total_stride(strides), strict=False):
        assert size // step >= 3 or step == 1


def test_strides_of_a_person_are_looked_at() -> None:
    assert form_problem((), 3) == crop_problem((), (7, 7, 7)) == ""
    assert form_problem(((2, 2), (1, 2)), 2) == ""
    assert form_problem(((2, 2), (2, 2, 2)), 2) == "each level needs 2 numbers, one an axis"
    for wrong in ((0, 2), (2, 4), (1, 1)):
        assert form_problem((wrong,), 2).startswith("each level halves some axes (2)")
    assert crop_problem(((2, 2), (1, 2)), (4, 8)) == ""
    assert crop_problem(((2, 2), (1, 2)), (4, 4)) == (
        "4 voxels along axis 1 do not make 2 or more of 4 each"
    )
    # An axis that no level halves may have any length.
    assert crop_problem(((1, 2, 2),), (1, 64, 64)) == ""
    assert crop_problem(((2, 2, 2),), (1, 64, 64)) != ""
    assert (
        crop_problem(((2, 2),), (7, 8)) == "7 voxels along axis 0 do not make 2 or more of 2 each"
    )
