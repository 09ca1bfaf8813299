"""Work for processes, which must be able to import it by its name."""

import os
import signal
import time
from typing import TYPE_CHECKING

from tracoco.errors import UserError

if TYPE_CHECKING:
    from tracoco.project.prepare import PrepareTask


def double(number: int) -> int:
    if number < 0:
        raise UserError(f"{number} is negative")
    return 2 * number


def die_at_three(number: int) -> str:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{number} done"


def own_process(_: int) -> int:
    return os.getpid()


def linger(seconds: int) -> str:
    if not seconds:
        raise UserError("0 seconds")
    time.sleep(seconds)
    return "late"


def lost(number: object, how: str) -> str:
    return f"{number} {how}"


def die_of_b(task: "PrepareTask") -> list[str]:
    from tracoco.project.prepare import prepare_one  # noqa: PLC0415 - other tasks need no torch

    if task.case.id == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return prepare_one(task)


def say_and_linger(file: str) -> None:
    """Write the number of this process into a file, and be at work for long."""
    with open(file, "w") as out:  # noqa: PTH123 - the name is enough
        out.write(str(os.getpid()))
    time.sleep(60)
