"""What a viewer sees of a label map, from where."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.studies.paper.surface_view import Viewpoint, render_surface

RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
COLOURS = {1: RED, 2: BLUE}
FRONT, LEFT, ABOVE = Viewpoint(0, 0), Viewpoint(90, 0), Viewpoint(0, 90)

Label = NDArray[np.uint8]


def block(*sides: slice, value: int = 1, label: Label | None = None) -> Label:
    found = np.zeros((20, 20, 20), dtype=np.uint8) if label is None else label
    found[sides] = value
    return found


def extent(picture: NDArray[np.floating]) -> tuple[float, float]:
    """Rows and columns of what is solid, as shares of the picture."""
    rows, columns = np.nonzero(picture[..., 3] > 0.5)
    shape = picture.shape
    return (np.ptp(rows) + 1) / shape[0], (np.ptp(columns) + 1) / shape[1]


def centre(picture: NDArray[np.floating], colour: int) -> tuple[float, float]:
    """Row and column of the middle of a colour, from -1 to 1."""
    shown = (picture[..., 3] > 0.5) & (picture[..., :3].argmax(axis=2) == colour)
    places = np.argwhere(shown)
    row, column = 2 * places.mean(axis=0) / (np.array(shown.shape) - 1) - 1
    return float(row), float(column)


def test_the_picture_has_the_size_that_was_asked_for_and_is_clear_outside() -> None:
    picture = render_surface(block(*[slice(6, 14)] * 3), (1, 1, 1), COLOURS, FRONT, pixels=60)
    assert picture.shape == (60, 60, 4)
    assert picture.min() >= 0
    assert picture.max() <= 1
    assert picture[0, 0].tolist() == [0, 0, 0, 0]
    assert picture[30, 30, 3] == 1


def test_nothing_to_show_is_a_clear_picture() -> None:
    empty = np.zeros((8, 8, 8), dtype=np.uint8)
    assert not render_surface(empty, (1, 1, 1), COLOURS, pixels=20).any()
    assert not render_surface(empty + 3, (1, 1, 1), COLOURS, pixels=20).any()


@pytest.mark.parametrize("viewpoint", [FRONT, LEFT])
def test_sides_are_as_the_viewer_sees_them(viewpoint: Viewpoint) -> None:
    # At the patient's right, front and head. A viewer who faces the patient has the patient's
    # right on the left; one who stands at the patient's left has the front on the left.
    corner = block(slice(14, 18), slice(14, 18), slice(14, 18))
    row, column = centre(render_surface(corner, (1, 1, 1), COLOURS, viewpoint, pixels=60), 0)
    assert row < -0.2
    assert column < -0.2


def test_from_above_the_front_is_at_the_bottom() -> None:
    corner = block(slice(14, 18), slice(14, 18), slice(14, 18))
    row, column = centre(render_surface(corner, (1, 1, 1), COLOURS, ABOVE, pixels=60), 0)
    assert row > 0.2
    assert column < -0.2


def test_the_nearer_class_hides_the_other_whichever_is_drawn_first() -> None:
    label = block(slice(4, 16), slice(4, 8), slice(4, 16), value=1)
    block(slice(4, 16), slice(12, 16), slice(4, 16), value=2, label=label)
    for colours in (COLOURS, dict(reversed(COLOURS.items()))):
        front = render_surface(label, (1, 1, 1), colours, FRONT, pixels=60)
        behind = render_surface(label, (1, 1, 1), colours, Viewpoint(180, 0), pixels=60)
        assert front[30, 30, 2] > front[30, 30, 0]
        assert behind[30, 30, 0] > behind[30, 30, 2]


def test_spacing_is_respected() -> None:
    cube = block(*[slice(5, 15)] * 3)
    tall = render_surface(cube, (1, 1, 3), COLOURS, FRONT, pixels=90)
    rows, columns = extent(tall)
    # Shares of a frame that is 28 mm wide and 84 mm high.
    assert rows * 84 == pytest.approx(30, abs=3)
    assert columns * 28 == pytest.approx(10, abs=2)


def test_a_face_towards_the_light_is_brighter() -> None:
    cube = block(*[slice(5, 15)] * 3)
    above, below = (
        render_surface(cube, (1, 1, 1), COLOURS, Viewpoint(0, lift), pixels=60)[30, 30, 0]
        for lift in (89, -89)
    )
    front = render_surface(cube, (1, 1, 1), COLOURS, FRONT, pixels=60)
    ball = np.linalg.norm(np.indices((20, 20, 20)) - 9.5, axis=0) < 7
    picture = render_surface(ball.astype(np.uint8), (1, 1, 1), COLOURS, FRONT, pixels=60)
    assert above == pytest.approx(below, abs=0.02)  # the light goes with the viewer
    assert front[30, 30, 0] > 0.6
    assert picture[20, 22, 0] > picture[40, 38, 0] + 0.3  # upper left against lower right


def test_a_flat_face_is_evenly_lit() -> None:
    wall = block(slice(2, 18), slice(8, 12), slice(2, 18))
    face = render_surface(wall, (1, 1, 1), COLOURS, FRONT, pixels=60)[25:35, 25:35]
    assert np.ptp(face[..., 0]) < 0.02


def test_a_single_voxel_is_seen() -> None:
    speck = block(slice(10, 11), slice(10, 11), slice(10, 11))
    assert render_surface(speck, (1, 1, 1), COLOURS, FRONT, pixels=60)[..., 3].max() == 1


def test_maps_of_one_shape_are_framed_alike() -> None:
    small, large = block(*[slice(8, 12)] * 3), block(*[slice(4, 16)] * 3)
    pictures = [render_surface(label, (1, 1, 1), COLOURS, FRONT, 60) for label in (small, large)]
    assert pictures[0].shape == pictures[1].shape
    assert extent(pictures[1])[0] == pytest.approx(3 * extent(pictures[0])[0], rel=0.15)
