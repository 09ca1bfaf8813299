"""Being asked to stop: the step in hand is finished and saved first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class StopRequest:
    """The signal that asked this process to stop, or 0."""

    signal: int = 0


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGTERM and the first SIGINT instead of dying of them; a second SIGINT interrupts."""
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
        request.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
