"""Where a case is cut."""

import numpy as np

from tracoco.slices import VIEWS, centre, cut, shown_views, surroundings


def test_the_centre_of_a_block_is_its_middle() -> None:
    mask = np.zeros((9, 9, 9), dtype=bool)
    mask[2:5, 3:6, 4:7] = True
    assert centre(mask, (1, 1, 1)) == (3, 4, 5)


def test_the_centre_is_always_a_voxel_of_the_structure() -> None:
    # Two blocks; their centre of mass lies in the gap between them.
    mask = np.zeros((9, 3, 3), dtype=bool)
    mask[:2] = mask[7:] = True
    assert mask[centre(mask, (1, 1, 1))]


def test_nearness_to_the_centre_is_measured_in_millimetres() -> None:
    # Centre of mass at (1, 1): from there (0, 1) and (2, 1) are 10 mm away, (1, 0) only 1 mm.
    mask = np.zeros((3, 3, 1), dtype=bool)
    for place in ((0, 1, 0), (2, 1, 0), (1, 0, 0), (1, 2, 0)):
        mask[place] = True
    assert centre(mask, (10, 1, 1)) == (1, 0, 0)


def test_surroundings_are_half_the_longest_side_and_stay_inside() -> None:
    mask = np.zeros((40, 40, 10), dtype=bool)
    mask[20:28, 1:3, 4:6] = True
    # The longest side is 8 mm: 4 mm of room are 4 voxels of 1 mm, or 2 of 2 mm.
    assert surroundings(mask, (1, 1, 2)) == (slice(16, 32), slice(0, 7), slice(2, 8))


def test_a_cut_has_its_first_axis_across() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    axial, coronal, sagittal = (cut(array, view, (1, 2, 3)) for view in VIEWS)
    assert (axial.shape, coronal.shape, sagittal.shape) == ((3, 2), (4, 2), (4, 3))
    assert axial[2, 0] == array[0, 2, 3]
    assert coronal[1, 0] == array[0, 2, 1]
    assert sagittal[1, 0] == array[1, 0, 1]


def test_an_image_has_one_view() -> None:
    assert [view.name for view in shown_views((5, 6, 1))] == ["axial"]
    assert len(shown_views((5, 6, 7))) == 3
