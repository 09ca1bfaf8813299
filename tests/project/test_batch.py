import pytest

from tracoco.project.machine import Machine
from tracoco.project.planner import choose_batch, within_cases

CPU = Machine("cpu", 4)


@pytest.mark.parametrize(
    ("crop", "count"),
    [
        ((96, 96, 96), 2),
        ((64, 64, 64), 2),  # one holds 64^3 voxels, but two is the least
        ((64, 64, 16), 4),
        ((48, 48, 40), 3),  # 2.8
        ((32, 32, 32), 4),
        ((32, 32, 24), 4),  # 10.7, but four is the most
        ((160, 144), 4),
    ],
)
def test_small_crops_come_in_greater_number(crop: tuple[int, ...], count: int) -> None:
    assert choose_batch(crop, lambda _: True, CPU) == (count, count)


def test_memory_makes_them_fewer_and_never_fewer_than_two() -> None:
    assert choose_batch((32, 32, 32), lambda batch: sum(batch) <= 6, CPU) == (3, 3)
    assert choose_batch((32, 32, 32), lambda _: False, CPU) == (2, 2)


def test_no_scan_comes_twice_in_a_batch_where_that_can_be_helped() -> None:
    assert within_cases((4, 4), labelled=3, unlabelled=9) == (3, 4)
    assert within_cases((4, 4), labelled=1, unlabelled=1) == (2, 2)
    assert within_cases((1, 5), labelled=9, unlabelled=9) == (1, 5)


def test_a_gpu_takes_more_of_small_crops() -> None:
    gpu = Machine("gpu", 8)
    # 96^3 voxels are 3.4 crops of 64^3, and 27 of 32^3, but eight are the most.
    assert choose_batch((64, 64, 64), lambda _: True, gpu) == (3, 3)
    assert choose_batch((32, 32, 32), lambda _: True, gpu) == (8, 8)
