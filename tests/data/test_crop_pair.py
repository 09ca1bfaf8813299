import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import PLAIN

from tracoco.config import DataConfig, OverlapRule
from tracoco.data.augment import Appearance, Orientation, brighten
from tracoco.data.crop import (
    Crop,
    draw_first,
    draw_second,
    inside_volume,
    read_box,
    read_changed,
    start_ranges,
)
from tracoco.data.crop_pair import CropRule, draw_crop_pair
from tracoco.geometry import Box, Index, Size, overlap, start_range
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.project.prepare import prepare
from tracoco.project.store import Store, StoredCase

sizes = st.tuples(*[st.integers(1, 12)] * 3)
shapes = st.tuples(*[st.integers(1, 20)] * 3)


@given(shape=shapes, size=sizes, seed=st.integers(0, 10_000))
def test_the_shift_is_at_most_half_a_crop_and_never_nothing_where_there_is_room(
    shape: Size, size: Size, seed: int
) -> None:
    random = np.random.default_rng(seed)
    ranges = [start_range(n, s) for n, s in zip(shape, size, strict=True)]
    first = Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), size)
    second = draw_second(first, ranges, random)
    shifts = np.abs(np.subtract(first.start, second.start))
    assert (shifts <= np.array(size) // 2).all()
    assert all(low <= s <= high for s, (low, high) in zip(second.start, ranges, strict=True))
    room = any(low < high and s > 1 for (low, high), s in zip(ranges, size, strict=True))
    assert shifts.any() == room


def test_shifts_go_both_ways_and_reach_half_a_crop() -> None:
    first = Box((10, 10, 10), (8, 8, 8))
    ranges = start_ranges((30, 30, 30), first.size)
    shifts = [
        draw_second(first, ranges, np.random.default_rng(seed)).start[0] - 10 for seed in range(300)
    ]
    assert (min(shifts), max(shifts)) == (-4, 4)
    assert abs(np.mean(shifts)) < 0.5


@given(
    shape=shapes,
    size=sizes,
    seed=st.integers(0, 10_000),
    rule_name=st.sampled_from(["random", "half", "quarter", "full", "low"]),
)
def test_two_boxes_always_meet_in_the_volume_and_slices_never_move(
    shape: Size, size: Size, seed: int, rule_name: OverlapRule
) -> None:
    random = np.random.default_rng(seed)
    ranges = [start_range(n, s) for n, s in zip(shape, size, strict=True)]
    first = Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), size)
    second = draw_second(first, ranges, random, rule_name)
    assert second.size == size
    assert not first.intersect(second).empty
    assert all(low <= s <= high for s, (low, high) in zip(second.start, ranges, strict=True))
    for here, there, voxels in zip(first.start, second.start, size, strict=True):
        assert voxels > 1 or here == there


def seconds(
    first: Box, shape: Size, rule_name: OverlapRule, count: int = 200
) -> list[tuple[int, ...]]:
    ranges = start_ranges(shape, first.size)
    return [
        draw_second(first, ranges, np.random.default_rng(seed), rule_name).start
        for seed in range(count)
    ]


@pytest.mark.parametrize(("rule_name", "shift"), [("half", 4), ("quarter", 6)])
def test_half_and_quarter_leave_that_share_in_common(rule_name: OverlapRule, shift: int) -> None:
    first = Box((10, 2, 7), (8, 8, 8))
    places = np.array(seconds(first, (30, 30, 15), rule_name))
    # Room on both sides of the first axis; only above on the second; only below on the third.
    assert set(places[:, 0]) == {10 - shift, 10 + shift}
    assert 60 < (places[:, 0] < 10).sum() < 140
    assert set(places[:, 1]) == {2 + shift}
    assert set(places[:, 2]) == {7 - shift}


def test_a_shift_without_room_goes_as_far_as_it_can() -> None:
    first = Box((2, 1, 0), (8, 8, 8))
    # Of the starts 0 to 3 the farthest from 2 is 0; 0 and 2 are equally far from 1.
    places = seconds(first, (11, 10, 8), "half")
    assert {place[0] for place in places} == {0}
    assert {place[1] for place in places} == {0, 2}
    assert {place[2] for place in places} == {0}


def test_no_rule_name_gives_the_same_place() -> None:
    first = Box((10, 2, 7), (8, 8, 8))
    assert set(seconds(first, (30, 30, 30), "full")) == {first.start}


def test_low_goes_down_to_the_volumes_end_and_half_a_crop_where_that_would_not_meet() -> None:
    first = Box((5, 9, 0), (8, 8, 8))
    places = np.array(seconds(first, (30, 30, 30), "low", 600))
    assert set(places[:, 0]) == set(range(5))
    # Starts 0 and 1 would leave nothing of a crop of 8 at 9, so they become 9 - 4.
    assert set(places[:, 1]) == set(range(2, 9))
    assert (places[:, 1] == 5).sum() > 2 * (places[:, 1] == 6).sum()
    assert set(places[:, 2]) == {0}


def test_reading_beyond_the_volume_gives_zeros_and_says_so() -> None:
    volume = np.arange(1, 9, dtype=np.float32).reshape(1, 2, 2, 2)
    box = Box((-1, 0, 0), (4, 2, 3))
    values, valid = read_box(volume, box), inside_volume(box, (2, 2, 2))
    assert values.shape == (1, 4, 2, 3)
    assert (values[0, 1:3, :, :2] == volume[0]).all()
    assert valid.sum() == 8
    assert (values[0][~valid] == 0).all()


def changed(volume: NDArray[np.float32], box: Box, appearance: Appearance) -> NDArray[np.float32]:
    into = np.full((len(volume), *box.size), np.nan, dtype=np.float32)
    read_changed(volume, box, appearance, into)
    return into


@pytest.mark.parametrize("start", [(1, 2, 0), (-1, 2, 4)])
@pytest.mark.parametrize("exchanged", [False, True])
def test_a_crop_is_the_oriented_and_brightened_box(start: Index, *, exchanged: bool) -> None:
    volume = np.random.default_rng(0).random((2, 7, 8, 9)).astype(np.float32)
    orientation = Orientation((0, 1), exchanged, (0, 2))
    box = Box(start, (4, 5, 6))
    crop = Crop(volume, box, orientation, Appearance(1.2))
    plain = orientation.apply(brighten(read_box(volume, box), 1.2))
    assert crop.shape == plain.shape == (2, *((5, 4) if exchanged else (4, 5)), 6)
    assert (crop.values == plain).all()
    assert (crop.values[:, ~crop.valid] == 0).all()


def test_a_blur_sees_what_lies_around_a_box_but_nothing_beyond_the_volume() -> None:
    volume = np.random.default_rng(0).random((2, 20, 18, 16)).astype(np.float32)
    appearance = Appearance(1.0, sigma=1.5)
    whole = changed(volume, Box((0, 0, 0), (20, 18, 16)), appearance)
    part = changed(volume, Box((5, -2, 9), (6, 7, 10)), appearance)
    assert np.abs(part[:, :, 2:, :7] - whole[:, 5:11, :5, 9:]).max() < 1e-6
    assert (part[:, :, :2] == 0).all()
    assert (part[..., 7:] == 0).all()
    # The border is as bright as the rest: zeros from beyond would have halved it.
    assert whole[:, 0].mean() > 0.45


def test_a_slice_is_blurred_in_its_plane_alone() -> None:
    volume = np.zeros((1, 5, 9, 9), dtype=np.float32)
    volume[0, 2, 4, 4] = 1
    appearance = Appearance(1.0, sigma=1.0)
    hit, beside = (changed(volume, Box((z, 0, 0), (1, 9, 9)), appearance) for z in (2, 1))
    assert hit.sum() == pytest.approx(1, abs=1e-5)
    assert 0 < hit[0, 0, 4, 5] < hit[0, 0, 4, 4] < 0.5
    assert (beside == 0).all()


def rule(size: Size, **settings: object) -> CropRule:
    return CropRule(size, (0, 1), turns=True, config=DataConfig(**PLAIN | settings))


def stored(project: Project, index: int = 0) -> StoredCase:
    return Store(project.store_root).case(project.load_splits().labelled[index])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("size", [(12, 8, 10), (40, 8, 10), (40, 48, 32)])
def test_two_crops_show_the_same_voxels_in_their_overlap(
    project: Project, seed: int, size: Size
) -> None:
    pair = draw_crop_pair(stored(project), rule(size), np.random.default_rng(seed), labelled=True)
    here, there = overlap(pair.first.start, pair.second.start, size)
    assert not here.empty
    first, second = pair.first.values[:, *here.slices], pair.second.values[:, *there.slices]
    assert (first == second).all()
    assert (pair.first.valid[here.slices] == pair.second.valid[there.slices]).all()
    assert pair.first.values.shape[1:] == size
    assert pair.label is not None
    assert pair.label.shape == size


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rule_name", ["random", "quarter", "low"])
@pytest.mark.parametrize("size", [(12, 8, 10), (40, 8, 10), (1, 12, 8)])
def test_strong_changes_are_the_same_for_both_crops_also_at_their_borders(
    project: Project, seed: int, rule_name: str, size: Size
) -> None:
    case = stored(project)
    plain, strong = (
        draw_crop_pair(
            case,
            rule(size, overlap=rule_name, strong=strong),
            np.random.default_rng(seed),
            labelled=True,
        )
        for strong in (False, True)
    )
    assert (strong.first.start, strong.second.start) == (plain.first.start, plain.second.start)
    here, there = overlap(strong.first.start, strong.second.start, size)
    first, second = strong.first.values[:, *here.slices], strong.second.values[:, *there.slices]
    assert np.abs(first - second).max() < 1e-6
    assert np.abs(strong.first.values - plain.first.values).max() > 1e-3
    assert strong.first.values.dtype == np.float32
    assert strong.first.values.min() >= 0
    assert strong.first.values.max() <= 1
    assert (strong.second.values[:, ~strong.second.valid] == 0).all()
    assert np.array_equal(strong.label, plain.label)  # type: ignore[arg-type]  # both have one


def test_the_setting_says_how_far_the_second_crop_lies(project: Project) -> None:
    def shift(rule_name: str) -> list[int]:
        settings = rule((12, 12, 8), overlap=rule_name, flips="none", turns=False)
        pair = draw_crop_pair(stored(project), settings, np.random.default_rng(3), labelled=True)
        return [a - b for a, b in zip(pair.first.start, pair.second.start, strict=True)]

    assert shift("full") == [0, 0, 0]
    assert [abs(voxels) for voxels in shift("half")] == [6, 6, 4]
    assert min(shift("low")) >= 0 < max(shift("low"))


def test_low_means_low_after_flips_and_turns(project: Project) -> None:
    settings, moved = rule((12, 12, 8), overlap="low", flips="all", turns=True), 0
    for seed in range(60):
        pair = draw_crop_pair(stored(project), settings, np.random.default_rng(seed), labelled=True)
        shift = np.subtract(pair.first.start, pair.second.start)
        assert (shift >= 0).all()
        moved += int(shift.any())
    assert moved > 50


@pytest.fixture(scope="module")
def old_project(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same scans with a plan from before there were z-scores."""
    old = Project(tmp_path_factory.mktemp("old") / "project")
    shutil.copytree(project.root, old.root)
    write_plan(old.plan_file, old.load_plan().model_copy(update={"normalisation": "range"}))
    prepare(old)
    return old


@pytest.mark.parametrize(
    ("seed", "first", "second", "mean", "next_draw"),
    [
        (0, (6, 12, 4), (3, 16, 3), 0.553816, 0.935072),
        (1, (9, 9, 9), (8, 11, 8), 0.320232, 0.027559),
        (2, (0, 14, 8), (6, 11, 6), 0.441819, 0.657433),
    ],
)
def test_flips_and_turns_draw_what_they_always_drew(
    old_project: Project, seed: int, first: Index, second: Index, mean: float, next_draw: float
) -> None:
    # Noted before there were other rule_names and strong changes: old runs must stay the same.
    random = np.random.default_rng(seed)
    settings = rule((12, 8, 10), flips="all", turns=True)
    pair = draw_crop_pair(stored(old_project), settings, random, labelled=True)
    assert (pair.first.start, pair.second.start) == (first, second)
    assert pair.first.values.mean() == pytest.approx(mean, abs=1e-5)
    assert random.random() == pytest.approx(next_draw, abs=1e-6)


def test_crops_keep_to_the_limits_of_the_plan(project: Project) -> None:
    settings = replace(rule((12, 12, 12), brightness=0.9), limits=(-0.5, 0.25))
    lows, highs = set(), set()
    for seed in range(20):
        pair = draw_crop_pair(stored(project), settings, np.random.default_rng(seed), labelled=True)
        if pair.first.appearance.brightness > 1:
            lows.add(float(pair.first.values.min()))
            highs.add(float(pair.second.values.max()))
    assert (lows, highs) == ({-0.5}, {0.25})


def test_crops_are_mirrored_along_the_axes_that_the_plan_allows(project: Project) -> None:
    def reversed_axes(settings: CropRule) -> set[int]:
        pairs = [
            draw_crop_pair(stored(project), settings, np.random.default_rng(seed), labelled=True)
            for seed in range(20)
        ]
        return {axis for pair in pairs for axis in pair.first.orientation.reversed_axes}

    allowed = replace(rule((12, 10, 8)), mirror_axes=(0, 2))
    assert allowed.config.flips == "plan"
    assert reversed_axes(allowed) == {0, 2}
    assert reversed_axes(rule((12, 10, 8))) == set()
    unasked = allowed.config.model_copy(update={"flips": "none"})
    assert reversed_axes(replace(allowed, config=unasked)) == set()


@pytest.mark.parametrize("seed", range(20))
def test_the_label_moves_with_the_image(project: Project, seed: int) -> None:
    pair = draw_crop_pair(
        stored(project),
        rule((12, 10, 8), flips="all", turns=True),
        np.random.default_rng(seed),
        labelled=True,
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
    assert pair.first.valid.sum() == np.prod(case.shape)
    assert pair.first.start == pair.second.start
    assert (pair.first.values[0][~pair.first.valid] == 0).all()


def test_crops_favour_the_foreground_as_asked(project: Project) -> None:
    case, size = stored(project), (4, 4, 4)
    label, ranges = case.label(), start_ranges(case.shape, size)

    def share(foreground: float) -> float:
        randoms = map(np.random.default_rng, range(300))
        hits = [
            label[draw_first(case, size, ranges, random, foreground).slices].any()
            for random in randoms
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


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("size", [(12, 8, 10), (1, 12, 8)])
def test_a_second_crop_that_nobody_looks_at_has_its_place_and_no_voxels(
    project: Project, size: Size, *, strong: bool
) -> None:
    pair, lone = (
        draw_crop_pair(
            stored(project),
            replace(rule(size, strong=strong), pairs=pairs),
            np.random.default_rng(5),
            labelled=True,
        )
        for pairs in (True, False)
    )
    assert np.array_equal(lone.first.values, pair.first.values)
    assert np.array_equal(lone.first.valid, pair.first.valid)
    assert (lone.first.start, lone.second.start) == (pair.first.start, pair.second.start)
    assert lone.second.values.shape == (1, *size[:-1], 0)
    assert lone.second.valid.shape == (*size[:-1], 0)


@given(
    shape=shapes,
    size=sizes,
    room=st.floats(0, 0.9),
    seed=st.integers(0, 10_000),
)
def test_room_lets_crops_of_any_scan_move(shape: Size, size: Size, room: float, seed: int) -> None:
    ranges, random = start_ranges(shape, size, room), np.random.default_rng(seed)
    for (low, high), length, voxels in zip(ranges, shape, size, strict=True):
        assert high - low >= (round(room * voxels) if voxels > 1 else 0)
        if voxels == 1 or room == 0:
            assert (low, high) == start_range(length, voxels)
    first = Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), size)
    second = draw_second(first, ranges, random)
    assert all(low <= s <= high for s, (low, high) in zip(second.start, ranges, strict=True))
    moves = any(low < high and s > 1 for (low, high), s in zip(ranges, size, strict=True))
    assert (first.start != second.start) == moves


def test_room_is_made_on_both_sides_where_a_scan_is_too_small() -> None:
    # A slice of 8 x 30 pixels in crops of 12 x 12 that may be anywhere within 6 pixels.
    assert start_ranges((5, 8, 30), (1, 12, 12), 0.5) == [(0, 4), (-5, 1), (0, 18)]
    assert start_ranges((5, 8, 30), (1, 12, 12), 0.5, slice_=3) == [(3, 3), (-5, 1), (0, 18)]
    assert start_ranges((5, 8, 30), (1, 12, 12)) == [(0, 4), (-2, -2), (0, 18)]


def test_crops_that_reach_beyond_a_scan_are_marked_and_agree_where_they_meet(
    project: Project,
) -> None:
    case = stored(project)
    size = case.shape
    roomy = replace(rule(size), turns=False, config=DataConfig(**PLAIN, room=0.5, brightness=0.0))
    shifts = set()
    for seed in range(20):
        pair = draw_crop_pair(case, roomy, np.random.default_rng(seed), labelled=True)
        first, second = pair.first, pair.second
        shifts.add(tuple(np.subtract(first.start, second.start)))
        here, there = overlap(first.start, second.start, size)
        assert (first.values[0][here.slices] == second.values[0][there.slices]).all()
        assert (first.valid[here.slices] == second.valid[there.slices]).all()
        assert not first.valid.all()
        assert (first.values[0][~first.valid] == 0).all()
        assert pair.label is not None
        assert (pair.label[~first.valid] == 0).all()
    assert len(shifts) > 15
    assert (0, 0, 0) not in shifts


def test_a_crop_that_is_tied_to_a_slice_finds_the_foreground_of_that_slice(
    project: Project,
) -> None:
    case, flat = stored(project), replace(rule((1, 6, 6)), plane=(1, 2))
    always = replace(flat, config=DataConfig(**PLAIN, foreground=1.0))
    held = {int(voxel[0]) for voxel in case.foreground()}
    empty = next(index for index in range(case.shape[0]) if index not in held)
    for index in (min(held), max(held), empty):
        for seed in range(10):
            random = np.random.default_rng(seed)
            pair = draw_crop_pair(case, always, random, labelled=True, slice_=index)
            assert pair.first.box.start[0] == pair.second.box.start[0] == index
            assert pair.label is not None
            assert pair.label.any() == (index in held)
