import importlib.util
import os
import signal
import sys
import time
from multiprocessing import get_all_start_methods

import pytest
from worker_tasks import die_at_three, double, linger, lost, own_process

from tracoco.errors import UserError
from tracoco.project import workers as workers_module
from tracoco.project.workers import BYTES_A_WORKER, MOST_WORKERS, in_parallel, suitable_workers


def lost_number(number: int, how: str) -> int:
    raise AssertionError(f"{number} {how}")


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_has_its_result(workers: int) -> None:
    results = in_parallel(double, [1, 2, 3, 4, 5], workers, died=lost_number)
    assert sorted(results) == [(1, 2), (2, 4), (3, 6), (4, 8), (5, 10)]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_task_raises_is_raised_here(workers: int) -> None:
    with pytest.raises(UserError, match="-7 is negative"):
        list(in_parallel(double, [1, -7], workers, died=lost_number))


def test_a_process_that_dies_costs_its_task_alone() -> None:
    results = dict(in_parallel(die_at_three, [1, 2, 3, 4, 5], 2, died=lost))
    assert results.pop(3) == (
        "3 was killed by SIGKILL, most likely for want of memory; "
        "run it again with fewer --workers, or leave the case out"
    )
    assert results == {number: f"{number} done" for number in (1, 2, 4, 5)}


def test_want_of_memory_is_guessed_at_for_sigkill_alone() -> None:
    crashed = workers_module._how_it_ended(-signal.SIGSEGV)
    assert crashed == "was killed by SIGSEGV; leave the case out"
    assert workers_module._how_it_ended(1) == (
        'ended with code 1, see above; a script needs the guard `if __name__ == "__main__":` '
        "around its calls"
    )


def test_a_mac_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    if "forkserver" in get_all_start_methods() and sys.platform != "darwin":
        assert workers_module._context().get_start_method() == "forkserver"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert workers_module._context().get_start_method() == "spawn"


def test_what_the_server_imports_is_there_to_import() -> None:
    assert all(importlib.util.find_spec(name) for name in workers_module.PRELOADED)


def test_one_worker_is_this_process_and_several_are_not() -> None:
    alone = in_parallel(own_process, [1, 2], 1, died=lost_number)
    assert {process for _, process in alone} == {os.getpid()}
    several = {process for _, process in in_parallel(own_process, [1, 2], 2, died=lost_number)}
    assert len(several) == 2
    assert os.getpid() not in several


def test_an_error_ends_the_processes_that_are_at_work() -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match="0 seconds"):
        list(in_parallel(linger, [60, 0], 2, died=lost))
    assert time.monotonic() - began < 30


def test_small_data_is_read_by_one_process() -> None:
    assert suitable_workers(0) == 1
    assert suitable_workers(BYTES_A_WORKER - 1) == 1
    assert 1 <= suitable_workers(10**15) <= MOST_WORKERS
