"""Pictures, looked at pixel by pixel."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import has_colour, pixels

from tracoco.errors import UserError
from tracoco.reporting.pictures import draw_case
from tracoco.slices import PREDICTION, TRUTH, CaseVolumes


def block(*shape: int, start: int = 4, size: int = 4) -> NDArray[np.uint8]:
    label = np.zeros(shape, dtype=np.uint8)
    label[start : start + size, 4:8, 4:8] = 1
    return label


def volumes(
    truth: NDArray[Any],
    prediction: NDArray[Any],
    spacing: tuple[float, float, float] = (1, 1, 1),
) -> CaseVolumes:
    image = np.random.default_rng(0).normal(size=truth.shape).astype(np.float32)
    return CaseVolumes(image, truth, prediction, spacing)


def test_truth_and_prediction_are_both_outlined() -> None:
    truth, prediction = block(12, 12, 12), block(12, 12, 12, start=6)
    picture = pixels(draw_case(volumes(truth, prediction)))
    assert has_colour(picture, TRUTH)
    assert has_colour(picture, PREDICTION)


def test_a_missed_structure_has_no_predicted_outline() -> None:
    truth = block(12, 12, 12)
    picture = pixels(draw_case(volumes(truth, np.zeros_like(truth))))
    assert has_colour(picture, TRUTH)
    assert not has_colour(picture, PREDICTION)


def test_a_spurious_structure_is_shown_where_it_was_predicted() -> None:
    prediction = block(12, 12, 12)
    picture = pixels(draw_case(volumes(np.zeros_like(prediction), prediction)))
    assert has_colour(picture, PREDICTION)
    assert not has_colour(picture, TRUTH)


def test_a_mask_that_fills_the_picture_is_outlined_at_its_edge() -> None:
    full = np.ones((6, 6, 6), dtype=np.uint8)
    assert has_colour(pixels(draw_case(volumes(full, np.zeros_like(full)))), TRUTH)


def test_the_patients_right_is_on_the_left_and_the_head_on_top() -> None:
    # Canonical axes run to the right, to the front and to the head.
    truth = block(12, 12, 12)
    for axis, panel, bright, dark in (
        (0, 0, np.s_[:, :20], np.s_[:, -20:]),
        (2, 1, np.s_[:20], np.s_[-20:]),
    ):
        case = replace(volumes(truth, truth), image=np.indices(truth.shape)[axis].astype("f4"))
        whole = pixels(draw_case(case))
        width = whole.shape[1] // 3
        view = whole[40:-10, panel * width + 15 : (panel + 1) * width - 15]
        assert view[bright].mean() > view[dark].mean() + 0.5


def test_thick_slices_make_a_taller_picture() -> None:
    truth = block(12, 12, 12)
    thin, thick = (
        pixels(draw_case(volumes(truth, truth, (1, 1, depth)))).shape for depth in (1, 1.5)
    )
    assert thin[1] == thick[1]
    assert thick[0] > thin[0]


def test_an_image_of_one_slice_is_drawn() -> None:
    truth = np.zeros((12, 12, 1), dtype=np.uint8)
    truth[4:8, 4:8] = 1
    assert has_colour(pixels(draw_case(volumes(truth, np.zeros_like(truth)))), TRUTH)


def test_nothing_to_see_is_said() -> None:
    empty = np.zeros((4, 4, 4), dtype=np.uint8)
    with pytest.raises(UserError, match="neither"):
        draw_case(volumes(empty, empty))
