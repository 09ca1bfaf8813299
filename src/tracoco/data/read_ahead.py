"""Batches that are there when the training wants them."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

from tracoco.data.batches import Batch, BatchSource

AHEAD = 2
"""Batches that each thread may be ahead of the training."""


def batches(
    source: BatchSource, start: int, stop: int, workers: int, *, pinned: bool = False
) -> Generator[Batch, None, None]:
    """The batches of steps `start` to `stop` in their order, read ahead by `workers` threads.

    Threads and not processes: numpy lets go of Python's lock while it reads, and what a process
    has read would have to be copied, through shared memory that containers have little of. Pinned
    batches are copied to a GPU while it computes; without a GPU they are of no use.
    """

    def read(step: int) -> Batch:
        return source[step].pin_memory() if pinned else source[step]

    if not workers:
        yield from map(read, range(start, stop))
        return
    pool, ahead = ThreadPoolExecutor(workers, "tracoco-reader"), deque[Future[Batch]]()
    try:
        for step in range(start, stop):
            ahead.append(pool.submit(read, step))
            if len(ahead) > AHEAD * workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
