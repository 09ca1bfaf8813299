import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.config import DataConfig
from tracoco.data.crop_pair import (
    CropRule,
    draw_crop_pair,
    draw_first,
    draw_second,
    inside_volume,
    read_box,
)
from tracoco.geometry import Box, Index, overlap, start_range
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase

sizes = st.tuples(*[st.integers(1, 12)] * 3)
shapes = st.tuples(*[st.integers(1, 20)] * 3)


@given(shape=shapes, size=sizes, seed=st.integers(0, 10_000))
def test_the_shift_is_at_most_half_a_crop_and_never_nothing_where_there_is_room(
    shape: Index, size: Index, seed: int
) -> None:
    random = np.random.default_rng(seed)
    ranges = [start_range(n, s) for n, s in zip(shape, size, strict=True)]
    first = Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), size)
    second = draw_second(first, shape, random)
    shifts = np.abs(np.subtract(first.start, second.start))
    assert (shifts <= np.array(size) // 2).all()
    assert all(low <= s <= high for s, (low, high) in zip(second.start, ranges, strict=True))
    room = any(low < high and s > 1 for (low, high), s in zip(ranges, size, strict=True))
    assert shifts.any() == room


def test_shifts_go_both_ways_and_reach_half_a_crop() -> None:
    first = Box((10, 10, 10), (8, 8, 8))
    shifts = [
        draw_second(first, (30, 30, 30), np.random.default_rng(seed)).start[0] - 10
        for seed in range(300)
    ]
    assert (min(shifts), max(shifts)) == (-4, 4)
    assert abs(np.mean(shifts)) < 0.5


def test_reading_beyond_the_volume_gives_zeros_and_says_so() -> None:
    volume = np.arange(1, 9, dtype=np.float32).reshape(1, 2, 2, 2)
    box = Box((-1, 0, 0), (4, 2, 3))
    values, inside = read_box(volume, box), inside_volume(box, (2, 2, 2))
    assert values.shape == (1, 4, 2, 3)
    assert (values[0, 1:3, :, :2] == volume[0]).all()
    assert inside.sum() == 8
    assert (values[0][~inside] == 0).all()


def rule(size: Index, **settings: float) -> CropRule:
    return CropRule(size, (0, 1), turns=True, config=DataConfig(**settings))  # type: ignore[arg-type]  # any setting


def stored(project: Project, index: int = 0) -> StoredCase:
    return Store(project.store_root).case(project.load_splits().labelled[index])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("size", [(12, 8, 10), (40, 8, 10), (40, 48, 32)])
def test_two_crops_show_the_same_voxels_in_their_overlap(
    project: Project, seed: int, size: Index
) -> None:
    pair = draw_crop_pair(stored(project), rule(size), np.random.default_rng(seed), labelled=True)
    here, there = overlap(pair.first.start, pair.second.start, size)
    assert not here.empty
    first, second = pair.first.values[:, *here.slices], pair.second.values[:, *there.slices]
    assert (first == second).all()
    assert (pair.first.inside[here.slices] == pair.second.inside[there.slices]).all()
    assert pair.first.values.shape[1:] == size
    assert pair.label is not None
    assert pair.label.shape == size


@pytest.mark.parametrize("seed", range(20))
def test_the_label_moves_with_the_image(project: Project, seed: int) -> None:
    pair = draw_crop_pair(
        stored(project), rule((12, 10, 8)), np.random.default_rng(seed), labelled=True
    )
    assert pair.label is not None
    ball = pair.label == 1
    if ball.sum() > 20 and (~ball).sum() > 20:
        # The ball is bright: were label and image turned differently, the contrast would vanish.
        assert pair.first.values[0][ball].mean() > pair.first.values[0][~ball].mean() + 0.2


def test_a_volume_smaller_than_the_crop_is_padded_on_every_axis(project: Project) -> None:
    case = stored(project)
    size = (48, 40, 32)
    pair = draw_crop_pair(case, rule(size), np.random.default_rng(0), labelled=True)
    assert pair.first.inside.sum() == np.prod(case.shape)
    assert pair.first.start == pair.second.start
    assert (pair.first.values[0][~pair.first.inside] == 0).all()


def test_crops_favour_the_foreground_as_asked(project: Project) -> None:
    case, size = stored(project), (4, 4, 4)
    label = case.label()

    def share(foreground: float) -> float:
        hits = [
            label[draw_first(case, size, np.random.default_rng(seed), foreground).slices].any()
            for seed in range(300)
        ]
        return float(np.mean(hits))

    assert share(1.0) == 1.0
    assert share(0.0) < 0.5
    assert share(0.0) < share(0.5) < 1.0


def test_an_unlabelled_crop_opens_no_label(project: Project) -> None:
    unlabelled = project.load_splits().unlabelled[0]
    case = Store(project.store_root).case(unlabelled)
    pair = draw_crop_pair(case, rule((8, 8, 8)), np.random.default_rng(0), labelled=False)
    assert pair.label is None
    with pytest.raises(ValueError, match="unlabelled"):
        case.label()
