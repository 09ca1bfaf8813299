from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tracoco.data.source import Purpose, Stream, cases_at, generator


def test_a_draw_depends_on_every_part_of_its_key() -> None:
    keys = [
        (0, Stream.LABELLED, Purpose.CROP, 0, 0),
        (1, Stream.LABELLED, Purpose.CROP, 0, 0),
        (0, Stream.UNLABELLED, Purpose.CROP, 0, 0),
        (0, Stream.LABELLED, Purpose.ORDER, 0, 0),
        (0, Stream.LABELLED, Purpose.CROP, 1, 0),
        (0, Stream.LABELLED, Purpose.CROP, 0, 1),
    ]
    values = [generator(*key).random() for key in keys]
    assert len(set(values)) == len(keys)
    assert values == [generator(*key).random() for key in keys]


@given(count=st.integers(1, 40), batch=st.integers(1, 12), seed=st.integers(0, 99))
def test_no_case_twice_in_a_batch(count: int, batch: int, seed: int) -> None:
    for step in range(30):
        cases = cases_at(step, count, batch, seed=seed, stream=Stream.LABELLED)
        assert len(cases) == batch
        assert len(set(cases)) == min(batch, count)
        assert set(cases) <= set(range(count))


@given(count=st.integers(2, 12), batch=st.integers(1, 6), seed=st.integers(0, 9))
def test_over_a_long_run_every_case_comes_equally_often(count: int, batch: int, seed: int) -> None:
    batch = min(batch, count)
    # After `count` laps every case has rested equally often.
    steps = count * (count // batch)
    seen = Counter[int]()
    for step in range(steps):
        seen.update(cases_at(step, count, batch, seed=seed, stream=Stream.UNLABELLED))
    assert set(seen.values()) == {steps * batch // count}


def test_laps_differ() -> None:
    laps = [
        [
            c
            for step in range(lap * 4, lap * 4 + 4)
            for c in cases_at(step, 8, 2, seed=0, stream=Stream.LABELLED)
        ]
        for lap in range(5)
    ]
    assert len({tuple(lap) for lap in laps}) == 5
