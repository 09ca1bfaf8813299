"""Somebody else who writes into a folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracoco.lock import only_writer


@contextmanager
def in_another_thread(folder: Path) -> Iterator[None]:
    """Somebody else has the folder: the same thread could lock it again."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with only_writer(folder, "train"):
            held.set()
            over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.join()
