"""Random draws that are a pure function of what they are for, so that nothing needs to be saved."""

from enum import IntEnum

import numpy as np
from numpy.random import Generator, Philox, SeedSequence


class Stream(IntEnum):
    """What a draw is for; each stream has random numbers of its own."""

    LABELLED = 0
    UNLABELLED = 1


class Purpose(IntEnum):
    """Which decision of a stream a draw makes."""

    ORDER = 0
    REST = 1
    CROP = 2


def generator(seed: int, stream: Stream, purpose: Purpose, *counters: int) -> Generator:
    """A generator for one decision: the same key always gives the same numbers."""
    return Generator(Philox(SeedSequence([seed, stream, purpose, *counters])))


def cases_at(step: int, count: int, batch: int, *, seed: int, stream: Stream) -> list[int]:
    """Which of `count` cases the batch of a step holds, over all processes.

    The cases pass in laps. A lap is a fresh order of all cases but the few that would not fill a
    batch; those rest, in turns, so that no case is twice in a batch and over many laps every case
    comes equally often.
    """
    if count < batch:
        order = generator(seed, stream, Purpose.ORDER, step).permutation(count)
        return [int(order[i % count]) for i in range(batch)]
    lap, place = divmod(step, count // batch)
    resting_count = count % batch
    turns = generator(seed, stream, Purpose.REST).permutation(count)
    resting = np.take(turns, np.arange(resting_count) + lap * resting_count, mode="wrap")
    order = generator(seed, stream, Purpose.ORDER, lap).permutation(
        np.setdiff1d(np.arange(count), resting)
    )
    return [int(case) for case in order[place * batch : (place + 1) * batch]]
