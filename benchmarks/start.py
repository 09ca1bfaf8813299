"""How soon the command line answers."""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.agreement import DisagreementError
from benchmarks.row import Row
from benchmarks.timing import best_of

MOST_SECONDS = 0.5


def rows(work: Path) -> list[Row]:  # noqa: ARG001 - every group is called alike
    """Commands that need no network: without torch they answer at once."""
    return [_row(words) for words in (["--help"], ["methods"])]


def _row(words: list[str]) -> Row:
    command = [str(Path(sys.executable).with_name("tracoco")), *words]
    _check_without_torch(words)
    best = best_of(15, lambda: _run(command))[0]
    python = best_of(5, lambda: _run([sys.executable, "-c", ""]))[0]
    return Row(
        f"tracoco {' '.join(words)}",
        "a clock",
        best,
        None,
        "s",
        best,
        "at most",
        MOST_SECONDS,
        f"From the start of the process to its end, {python:.2f} s of which are Python's own; "
        "torch is not imported.",
    )


def _check_without_torch(words: list[str]) -> None:
    imported = _run([sys.executable, "-X", "importtime", "-m", "tracoco", *words]).stderr
    if re.search(r"\| +torch$", imported, re.MULTILINE):
        raise DisagreementError(f"tracoco {' '.join(words)} imports torch")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        command, check=True, capture_output=True, text=True
    )
