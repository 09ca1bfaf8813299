import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.plan import Plan
from tracoco.project.preprocess import (
    class_indices,
    kept_box,
    label_to_network_grid,
    normalise,
    raw_values,
    to_network_grid,
)


def isotropic(
    slice_axis: int | None = None, channels: int = 1, spacing_mm: float = 1, *, full: bool = False
) -> Plan:
    """A plan with cubic voxels and three classes."""
    return Plan.model_validate(
        {
            "dimensions": 3 if slice_axis is None else 2,
            "channels": channels,
            "label_values": (0, 1, 2),
            "class_names": ("background", "one", "two"),
            "slice_axis": slice_axis,
            "spacing_mm": (spacing_mm,) * 3,
            "crop": (1, 8, 8),
            "low_percentile": 0 if full else 0.5,
            "high_percentile": 100 if full else 99.5,
            "crop_to_content": True,
        }
    )


def test_intensities_are_clipped_at_percentiles_and_scaled() -> None:
    # Of 0, 1, ..., 100 the percentiles 0.5 and 99.5 are 0.5 and 99.5, 99 apart.
    scaled = normalise(np.arange(101, dtype=np.float32), isotropic())
    assert scaled[[0, 1, 50, 100]] == pytest.approx([0, 0.5 / 99, 0.5, 1])


def test_a_window_is_the_same_for_every_scan() -> None:
    plan = isotropic(channels=2).model_copy(update={"window": (None, (-100.0, 300.0))})
    values = np.array([-1024, -100, 0, 300, 3000], dtype=np.float32)
    # 0 is a quarter of the way from -100 to 300.
    assert normalise(values, plan, number=1).tolist() == [0, 0, 0.25, 1, 1]
    assert normalise(values, plan, number=0)[2] != 0.25
    assert values[0] == -1024  # it is still the caller's
    grid = to_network_grid(np.zeros((2, 2, 2, 2), dtype=np.float32), (1, 1, 1), plan)
    assert [channel.max() for channel in grid] == [0, 0.25]


def test_a_plan_that_does_not_rescale_keeps_the_values_of_the_file() -> None:
    plan = isotropic().model_copy(update={"rescale": False, "crop_to_content": False})
    image = np.random.default_rng(0).normal(0, 40, (1, 4, 5, 6)).astype(np.float32)
    found = to_network_grid(image, (1, 1, 1), plan)
    assert np.array_equal(found, image)
    found += 1
    assert not np.array_equal(found, image)  # the caller's image is not changed with it


def test_a_constant_image_becomes_zeros() -> None:
    assert not normalise(np.full(9, 42, dtype=np.float32), isotropic()).any()


def test_an_image_that_is_nearly_constant_keeps_what_differs() -> None:
    channel = np.full(1000, -5, dtype=np.float32)
    channel[3] = 5
    assert np.flatnonzero(normalise(channel, isotropic())).tolist() == [3]


def test_each_channel_is_normalised_by_itself() -> None:
    first = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    grid = to_network_grid(np.stack([first, 1000 * first]), (1, 1, 1), isotropic(channels=2))
    assert np.allclose(grid[0], grid[1])
    assert (grid.min(), grid.max()) == (0, 1)


def test_without_resampling_nothing_is_interpolated() -> None:
    image = np.random.default_rng(0).random((1, 3, 4, 5), dtype=np.float32)
    grid = to_network_grid(image, (1, 1, 1), isotropic())
    assert grid.dtype == np.float32
    assert np.array_equal(grid[0], normalise(image[0], isotropic()))


def test_voxels_twice_as_wide_are_means_of_two() -> None:
    # Along x: 0, 1, ..., 7, scaled by 1/7. Voxel 0 of 2 mm lies between 0 and 1, and so on.
    image = np.broadcast_to(np.arange(8, dtype=np.float32)[:, None, None], (8, 2, 2))[None].copy()
    plan = isotropic(spacing_mm=2, full=True).model_copy(update={"crop_to_content": False})
    grid = to_network_grid(image, (1, 1, 1), plan)
    assert grid.shape == (1, 4, 1, 1)
    assert grid.ravel() == pytest.approx(np.array([0.5, 2.5, 4.5, 6.5]) / 7)


def test_an_axis_without_a_spacing_is_not_interpolated() -> None:
    image = np.random.default_rng(0).random((1, 3, 4, 6), dtype=np.float32)
    plan = isotropic().model_copy(update={"spacing_mm": (None, None, 2.0)})
    grid = to_network_grid(image, (0.7, 5, 1), plan)
    assert grid.shape == (1, 3, 4, 3)
    scaled = normalise(image[0], plan)
    # Along z each voxel is the mean of two.
    np.testing.assert_allclose(grid[0], scaled.reshape(3, 4, 3, 2).mean(axis=3), rtol=1e-5)


def test_the_margin_is_left_out_and_still_counts_for_the_percentiles() -> None:
    image = np.full((1, 10, 10, 10), -1, dtype=np.float32)
    image[0, 2:5, 1:9, 3:6] = np.arange(1, 73).reshape(3, 8, 3)
    assert kept_box(image, isotropic()) == Box((2, 1, 3), (3, 8, 3))
    grid = to_network_grid(image, (1, 1, 1), isotropic())
    # 72 of 1000 voxels are no margin. The lowest percentile lies in the margin, and the highest
    # 4.995 places below the top, between 67 and 68: there is 67.005.
    expected = (np.arange(1, 73).reshape(3, 8, 3) + 1) / 68.005
    np.testing.assert_allclose(grid[0], expected.clip(0, 1), rtol=1e-6)
    entire = isotropic().model_copy(update={"crop_to_content": False})
    assert kept_box(image, entire) == Box((0, 0, 0), (10, 10, 10))
    assert np.array_equal(to_network_grid(image, (1, 1, 1), entire)[:, 2:5, 1:9, 3:6], grid)


def test_2d_projects_store_the_slice_axis_first() -> None:
    image = np.random.default_rng(0).random((1, 3, 4, 5), dtype=np.float32)
    grid = to_network_grid(image, (1, 9, 1), isotropic(slice_axis=1))
    assert grid.shape == (1, 4, 3, 5)
    assert np.array_equal(grid[0, 2], normalise(image[0], isotropic())[:, 2, :])
    assert grid.flags.c_contiguous


def test_another_number_of_channels_is_refused() -> None:
    with pytest.raises(UserError, match="has 2 channels, the plan 1"):
        to_network_grid(np.zeros((2, 2, 2, 2), dtype=np.float32), (1, 1, 1), isotropic())


def test_image_and_label_stay_together() -> None:
    # A bright box; its label must cover the voxels that are more than half bright.
    label = np.zeros((12, 10, 8), dtype=np.uint8)
    label[3:9, 2:7, 1:6] = 1
    plan = isotropic(slice_axis=2, spacing_mm=1.7, full=True)
    spacing = (1.0, 1.3, 2.0)
    bright = label[None].astype(np.float32)
    bright[0, 0, 0, 0] = bright[0, -1, -1, -1] = 0.1  # no margin
    image = to_network_grid(bright, spacing, plan)
    stored = label_to_network_grid(label, spacing, plan)
    assert stored.any()
    assert np.array_equal(stored == 1, image[0] > 0.5)


@given(
    st.lists(st.integers(1, 70_000), min_size=1, max_size=20, unique=True), st.integers(0, 2**32)
)
def test_raw_values_undo_class_indices(foreground: list[int], seed: int) -> None:
    values = (0, *foreground)
    plan = isotropic().model_copy(update={"label_values": values})
    raw = np.random.default_rng(seed).choice(np.array(values), (3, 3, 3))
    indices = class_indices(raw, plan, "label.nii")
    assert indices.dtype == np.uint8
    assert all(values[index] == value for index, value in zip(indices.flat, raw.flat, strict=True))
    assert np.array_equal(raw_values(indices, plan), raw)


def test_raw_values_take_the_smallest_type(plan: Plan) -> None:
    assert raw_values(np.array([0, 2]), plan).dtype == np.uint16  # 300
    assert raw_values(np.array([0, 2]), isotropic()).dtype == np.uint8


def test_unknown_values_are_named_with_their_file(plan: Plan) -> None:
    label = np.array([0, 7, 8, 9, 9], dtype=np.uint8)
    with pytest.raises(UserError) as error:
        class_indices(label, plan, "a.nii.gz")
    text = str(error.value)
    assert "a.nii.gz has 3 voxels with the values 8, 9" in text
    assert "it has 0, 7, 300" in text
    assert "plan.yaml" in text
