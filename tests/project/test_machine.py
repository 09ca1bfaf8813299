"""What a plan is made for, and how it grows with it."""

from math import prod
from typing import Literal

import pytest

from tracoco.errors import UserError
from tracoco.project import machine as module
from tracoco.project.case_statistics import CaseStatistics
from tracoco.project.fingerprint import Fingerprint, LabelValue
from tracoco.project.machine import CPU_SIZES, GPU_SIZES, Machine, find_machine, plan_gb
from tracoco.project.plan import Plan
from tracoco.project.planner import make_plan

TRUNK = ((340, 340, 220), (1.0, 1.0, 1.0))
THICK = ((340, 340, 20), (1.0, 1.0, 5.0))
SMALL = ((36, 50, 36), (1.0, 1.0, 1.0))
Scan = tuple[tuple[int, int, int], tuple[float, float, float]]


def on_gpu(scan: Scan, memory_gb: float, dimensions: Literal[2, 3] = 3) -> Plan:
    facts = Fingerprint((CaseStatistics("a", *scan, 1),), (LabelValue(1, 1, 1),))
    return make_plan(facts, dimensions, memory_gb=memory_gb, device="gpu")


def test_sizes_never_shrink() -> None:
    for sizes in (CPU_SIZES, GPU_SIZES):
        assert list(sizes) == sorted(sizes, key=lambda size: (size.filters, size.voxels))
        assert [size.voxels for size in sizes] == sorted(size.voxels for size in sizes)


@pytest.mark.parametrize("scan", [TRUNK, THICK, SMALL])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_plans_grow_with_the_memory_and_stay_within_it(
    scan: Scan, dimensions: Literal[2, 3]
) -> None:
    memories = (2, 4, 6, 8, 11, 12, 16, 24, 32, 40, 48, 64, 80, 96)
    plans = [on_gpu(scan, memory_gb, dimensions) for memory_gb in memories]
    for sizes in ([prod(plan.crop) for plan in plans], [plan.filters or 0 for plan in plans]):
        assert sizes == sorted(sizes)
    for memory_gb, plan in zip(memories, plans, strict=True):
        assert plan_gb(plan) <= Machine("gpu", memory_gb).budget_gb
        assert (plan.precision, plan.steps) == ("bf16", 15_000)


def test_large_scans_on_gpus_of_8_24_and_80_gb() -> None:
    small, large, largest = (on_gpu(TRUNK, memory_gb) for memory_gb in (8, 24, 80))
    # 20 passes x (filters x 7.66 maps x 2 bytes + 2 classes x 5 maps x 4 bytes) a voxel: 5.7 kB
    # with 16 filters, 8.2 with 24, 10.6 with 32 and 15.5 with 48. 6.8 GB are 0.83 million voxels
    # with 24 filters, fewer than 96^3, and 1.19 million with 16.
    assert (small.crop, small.filters) == ((96, 96, 96), 16)
    # 20.4 GB are 1.92 million with 32 filters: more than 120^3, fewer than 128^3.
    assert (large.crop, large.filters) == ((112, 112, 128), 32)
    # 68 GB are 4.39 million with 48 filters, more than 160^3. 2/3 of 220 are 146: 144.
    assert (largest.crop, largest.filters) == ((160, 176, 144), 48)
    assert {plan.batch for plan in (small, large, largest)} == {(2, 2)}


def test_crops_leave_room_to_translate_whatever_the_memory() -> None:
    plan = on_gpu(SMALL, 80)
    # 2/3 of 36, 50 and 36 voxels; there are 48 such crops in 96^3 voxels, and 8 are the most.
    assert (plan.crop, plan.filters, plan.batch) == ((24, 32, 24), 48, (8, 8))
    # A thin axis is taken whole, however much is cut from the others.
    assert on_gpu(THICK, 8).crop[2] == on_gpu(THICK, 80).crop[2] == 20
    assert on_gpu(THICK, 80, 2).crop == (1, 224, 224)


def test_on_a_cpu_time_limits_whatever_the_memory() -> None:
    facts = Fingerprint((CaseStatistics("a", *TRUNK, 1),), (LabelValue(1, 1, 1),))
    plan = make_plan(facts, memory_gb=500, device="cpu")
    assert (plan.crop, plan.filters, plan.batch) == ((96, 96, 96), 16, (2, 2))
    assert (plan.precision, plan.steps) == (None, 2000)


def test_what_is_known_better_is_kept_and_the_width_goes_with_it() -> None:
    facts = Fingerprint((CaseStatistics("a", *TRUNK, 1),), (LabelValue(1, 1, 1),))
    cut = make_plan(facts, overrides={"crop": (64, 64, 64)}, memory_gb=8, device="gpu")
    # 3.4 such crops have 96^3 voxels. 30 passes x 64^3 x (32 x 7.66 x 2 + 40) bytes are 4.2 GB,
    # and with 48 filters 6.1 GB, of 6.8.
    assert (cut.crop, cut.filters, cut.batch) == ((64, 64, 64), 48, (3, 3))
    narrow = make_plan(facts, overrides={"filters": 16}, memory_gb=80, device="gpu")
    assert (narrow.filters, narrow.crop) == (16, (160, 176, 144))
    told = {"steps": 7, "precision": "fp32"}
    plan = make_plan(facts, overrides=told, memory_gb=80, device="gpu")
    assert (plan.steps, plan.precision) == (7, "fp32")
    assert plan_gb(plan) <= 68


def test_the_machine_is_looked_up_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gpu_gb", lambda: None)
    assert find_machine().device == "cpu"
    assert 0.1 < find_machine().memory_gb < 10_000
    assert find_machine(None, 24) == Machine("cpu", 24)
    assert find_machine("gpu", 24) == Machine("gpu", 24)
    with pytest.raises(UserError, match="has no GPU to ask for its memory"):
        find_machine("gpu")
    monkeypatch.setattr(module, "gpu_gb", lambda: 11.5)
    assert find_machine() == find_machine("gpu") == Machine("gpu", 11.5)
    assert find_machine(None, 8) == Machine("gpu", 8)
    assert find_machine("cpu", 3) == Machine("cpu", 3)
