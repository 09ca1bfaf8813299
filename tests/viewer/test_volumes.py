"""The bytes of a page are the voxels of the files, at their places."""

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tracoco.viewer.cases import find_cases_to_view
from tracoco.viewer.volumes import (
    PackedCase,
    compressed,
    default_window,
    pack_case,
    pack_image,
)

if TYPE_CHECKING:
    from viewer.conftest import Folder

SHAPE = (7, 6, 5)


def packed(folder: "Folder", case: str) -> PackedCase:
    view = find_cases_to_view(folder.predictions)
    return pack_case(next(each for each in view.cases if each.id == case), view)


def voxel(content: bytes, shape: tuple[int, ...], place: tuple[int, int, int]) -> int:
    """As the page finds a voxel: x fastest."""
    return content[place[0] + shape[0] * (place[1] + shape[1] * place[2])]


def test_a_voxel_is_where_the_page_looks_for_it(filled: "Folder") -> None:
    found = packed(filled, "right")
    assert found.shape == SHAPE
    assert found.spacing_mm == (1.0, 1.0, 2.0)
    image, truth = found.volumes["image0"], found.volumes["truth"]
    content = image.content()
    for place in ((0, 0, 0), (6, 0, 0), (0, 5, 0), (0, 0, 4), (4, 3, 2)):
        value = float(np.ravel_multi_index(place, SHAPE))
        assert image.low + voxel(content, SHAPE, place) * image.step == value
        inside = 2 <= place[0] < 5 and 2 <= place[1] < 4 and 1 <= place[2] < 4
        assert voxel(truth.content(), SHAPE, place) == inside
    assert gzip.decompress(compressed(image)) == content


def test_a_file_in_another_axis_order_is_turned_to_right_front_up(folder: "Folder") -> None:
    image = np.zeros((5, 7, 6), np.float32)  # axes: down, left, front
    image[4, 6, 0] = 9.0
    affine = np.array([[0, -1, 0, 0], [0, 0, 1.5, 0], [-2.0, 0, 0, 0], [0, 0, 0, 1]], np.float64)
    folder.add("turned", image, image > 0, affine=affine)
    found = packed(folder, "turned")
    assert found.shape == (7, 6, 5)
    assert found.spacing_mm == (1.0, 1.5, 2.0)
    assert found.oriented
    # The last voxel down and left is the lowest and the leftmost one: x = 0, z = 0.
    assert np.argwhere(found.volumes["image0"].levels).tolist() == [[0, 0, 0]]
    assert np.argwhere(found.volumes["prediction"].levels).tolist() == [[0, 0, 0]]


def test_16_bits_are_little_endian_and_whole_numbers_exact() -> None:
    channel = np.array([-1000, 0, 3000], np.float32).reshape(3, 1, 1)
    volume = pack_image(channel)
    assert volume.describe() == {"bits": 16, "low": -1000.0, "step": 1.0}
    assert volume.content() == b"\x00\x00\xe8\x03\xa0\x0f"
    assert pack_image((channel / 7).astype(np.float32)).levels.dtype == np.uint16


def test_a_few_bright_voxels_do_not_make_the_others_coarse() -> None:
    random = np.random.default_rng(0)
    channel = random.normal(0.0, 1.0, (30, 30, 30)).astype(np.float32)
    channel[0, 0, 0] = 1000.0
    volume = pack_image(channel)
    shown = volume.low + volume.levels * volume.step
    assert np.abs(shown - channel).max() <= volume.step / 2 * 1.01
    assert volume.step <= 1004 / 65535 * 1.01
    assert not pack_image(np.full((2, 2, 2), 7.0, np.float32)).levels.any()


def test_the_window_is_that_of_the_body_and_not_of_the_air() -> None:
    channel = np.zeros((20, 20, 20), np.float32)
    channel[5:15, 5:15, 5:15] = np.linspace(100, 200, 1000).reshape(10, 10, 10)
    low, high = default_window(channel)
    assert 100 <= low < 105
    assert 195 < high <= 200
    flat_low, flat_high = default_window(np.zeros((2, 2, 2), np.float32))
    assert flat_low < flat_high


def test_labels_are_numbered_and_values_without_a_name_are_kept(folder: "Folder") -> None:
    folder.labels = {"10": "atrium", "3": "wall"}
    label = np.zeros(SHAPE, np.uint8)
    label[0, 0, 0], label[1, 0, 0], label[2, 0, 0] = 3, 10, 77
    folder.add("many", np.zeros(SHAPE, np.float32), label)
    found = packed(folder, "many")
    assert found.classes == ((3, "wall"), (10, "atrium"), (77, "label 77"))
    assert found.volumes["prediction"].levels[:3, 0, 0].tolist() == [1, 2, 3]


def test_what_nobody_has_drawn_is_told_apart(folder: "Folder") -> None:
    label = np.zeros(SHAPE, np.uint8)
    label[0, 0, 0], label[1, 0, 0] = 1, 255
    folder.add("partly", np.zeros(SHAPE, np.float32), label, label)
    view = find_cases_to_view(folder.predictions)
    found = pack_case(view.cases[0], replace(view, ignore_label=255))
    assert found.classes == ((1, "organ"), (255, "not drawn"))
    assert found.describe()["ignored"] == 2
    assert pack_case(view.cases[0], view).describe()["ignored"] == 0


def test_maps_have_a_scale_that_all_cases_share(filled: "Folder") -> None:
    found = packed(filled, "unlabelled")
    assert set(found.volumes) == {"image0", "prediction", "disagreement", "entropy"}
    for name, top in (("disagreement", 1.0), ("entropy", np.log(2))):
        volume = found.volumes[name]
        assert volume.step * 255 == pytest.approx(top)
        assert volume.levels[3, 2, 1] * volume.step == pytest.approx(0.5, abs=volume.step)


def test_a_label_on_another_grid_is_left_out_and_said(filled: "Folder") -> None:
    far = np.diag([1.0, 1.0, 2.0, 1.0])
    far[0, 3] = 5.0
    cube = np.zeros(SHAPE, np.uint8)
    filled.save("labels/right.nii.gz", cube, far)
    coarse = np.diag([1.3, 1.3, 2.6, 1.0])
    filled.save("predictions/right.nii.gz", np.zeros((3, 3, 3), np.uint8), coarse)
    found = packed(filled, "right")
    assert set(found.volumes) == {"image0"}
    assert len(found.problems) == 2
    assert "voxels away" in found.problems[0]
    assert "right.nii.gz has the shape (3, 3, 3)" in found.problems[1]


def test_a_smaller_case_keeps_lengths_and_counts(folder: "Folder") -> None:
    image = np.zeros((8, 8, 4), np.float32)
    image[:4] = 100.0
    folder.add("thick", image, image > 0, affine=np.diag([1.0, 1.0, 4.0, 1.0]))
    small = packed(folder, "thick").smaller()
    assert small.shape == (4, 4, 4)  # slices of 4 mm are not made thicker
    assert small.spacing_mm == (2.0, 2.0, 4.0)
    assert small.factor == (2, 2, 1)
    assert small.volumes["image0"].levels[:, 0, 0].tolist() == [100, 100, 0, 0]
    assert small.volumes["prediction"].levels[:, 0, 0].tolist() == [1, 1, 0, 0]
    assert small.smaller().factor == (4, 4, 1)
    assert small.smaller().smaller().factor == (8, 8, 2)


def test_an_image_has_one_slice(folder: "Folder") -> None:
    image = np.arange(12, dtype=np.float32).reshape(4, 3, 1)
    folder.add("flat", image, image > 5)
    found = packed(folder, "flat")
    assert found.shape == (4, 3, 1)
    assert found.smaller().shape == (2, 2, 1)
