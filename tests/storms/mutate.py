"""Mutated files against their readers: bytes flipped, cut, inserted; numbers of text made absurd.

    from storms.mutate import all_subjects, storm
    tally = storm(all_subjects(folder), seed=0, seconds=60)
    print(tally.table())
    assert not tally.failures

`all_subjects(folder)` writes one small valid file of each format and of each file that the package
writes; `storm` mutates and reads them until the time is over, in processes whose memory is limited.
Every mutation is a function of the seed and its number, so `one(subject, seed, number)` shows a
failure again.
"""

import hashlib
import multiprocessing
import random
import re
import resource
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tracoco.errors import UserError

MEMORY = 2**30
"""Bytes that reading a mutated file may take, beside what the process has already."""
HANG_SECONDS = 30.0
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
SEVERAL = re.compile(r"^\d+ problems:\n|\n  (?=\S)")
"""How an error lists several problems, one a line."""
ABSURD = (
    *(b"-1", b"0", b"1e999", b"NaN", b"-Infinity", b"9" * 30, b"4611686018427387904"),
    *(b'""', b"null", b"true", b"[]", b"{}", b"\xff\xfe", b"\x1b[2J", b"../../evil", b"20000"),
)  # fmt: skip


class Outcome(StrEnum):
    """What came of reading a mutated file."""

    EQUAL = "read equal"
    CHANGED = "read changed"
    """By the mutation, in a file without a checksum: nobody can tell."""
    REFUSED = "refused"
    """By one `UserError` of one line."""
    DIFFERENT = "silently different"
    """In a file whose checksum should have told."""
    TRACEBACK = "traceback"
    HANG = "hang"
    MEMORY = "over memory"
    CRASH = "crash"


FAILURES = (Outcome.DIFFERENT, Outcome.TRACEBACK, Outcome.HANG, Outcome.MEMORY, Outcome.CRASH)


@dataclass(frozen=True, slots=True)
class Subject:
    """A valid file, and how the package reads it."""

    name: str
    file: Path
    """Alone in its folder, or beside the files that are read with it."""
    read: Callable[[Path], Any]
    """From the file to what `str` shows in full, e.g. a digest."""
    checksum: bool = False
    """Whether every change of what is read must be noticed."""
    text: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A mutation that was not survived."""

    subject: str
    seed: int
    number: int
    outcome: Outcome
    detail: str


@dataclass(slots=True)
class Tally:
    """How many mutations of each subject had which outcome."""

    counts: dict[str, Counter[Outcome]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @property
    def total(self) -> int:
        """All mutations."""
        return sum(sum(counter.values()) for counter in self.counts.values())

    def add(self, subject: str, outcome: Outcome) -> None:
        """Count one."""
        self.counts.setdefault(subject, Counter())[outcome] += 1

    def table(self) -> str:
        """A line a subject, and one for all."""
        everything: Counter[Outcome] = Counter()
        for counter in self.counts.values():
            everything += counter
        rows = [("all", everything), *sorted(self.counts.items())]
        lines = [
            f"{name:24}" + "".join(f"{outcome}: {n}  " for outcome, n in counter.items() if n)
            for name, counter in rows
        ]
        return "\n".join(lines)


def storm(subjects: Sequence[Subject], seed: int, seconds: float, most: int | None = None) -> Tally:
    """Mutate and read the files in turn until the time is over, or so many were read.

    Args:
        subjects: what to mutate; their files are left as they are.
        seed: of all mutations.
        seconds: when to end.
        most: mutations in all; without a limit if not given.
    """
    tally, end, number = Tally(), time.monotonic() + seconds, 0

    def waiting() -> bool:
        return time.monotonic() < end and (most is None or number < most)

    while waiting():
        with _worker(subjects) as ask:
            outcome = Outcome.EQUAL
            while waiting() and outcome not in (Outcome.HANG, Outcome.CRASH):
                subject = subjects[number % len(subjects)]
                outcome, detail = ask(number % len(subjects), seed, number)
                tally.add(subject.name, outcome)
                if outcome in FAILURES:
                    tally.failures.append(Failure(subject.name, seed, number, outcome, detail))
                number += 1
    return tally


def mutated(content: bytes, draw: random.Random, *, text: bool) -> bytes:
    """The content after one or a few changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        change = draw.choice(TEXT_CHANGES if text and draw.random() < 0.7 else BYTE_CHANGES)
        content = change(content, draw)
    return content


def one(
    subject: Subject, seed: int, number: int, expected: str | None = None
) -> tuple[Outcome, str]:
    """What comes of one mutation, in this process; the file is put back.

    `expected` is what the file reads as when it is whole, if that is known already.
    """
    if expected is None:
        expected = str(subject.read(subject.file))
    content = subject.file.read_bytes()
    draw = random.Random(f"{seed}/{number}/{subject.name}")  # noqa: S311 - no secret
    try:
        subject.file.write_bytes(mutated(content, draw, text=subject.text))
        return _outcome(subject, expected)
    finally:
        subject.file.write_bytes(content)


def _outcome(subject: Subject, expected: str) -> tuple[Outcome, str]:
    try:
        found = str(subject.read(subject.file))
    except UserError as error:
        several = "\n" in SEVERAL.sub("", str(error))
        return (Outcome.TRACEBACK if several else Outcome.REFUSED), str(error)
    except MemoryError:
        return Outcome.MEMORY, traceback.format_exc()
    except Exception:  # noqa: BLE001 - this is what is looked for
        return Outcome.TRACEBACK, traceback.format_exc()
    if found == expected:
        return Outcome.EQUAL, ""
    return (Outcome.DIFFERENT if subject.checksum else Outcome.CHANGED), found[:200]


def _flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return content
    at = draw.randrange(min(len(content), draw.choice((400, 10**9))))
    return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _insert(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.randbytes(draw.choice((1, 2, 8, 100))) + content[at:]


def _overwrite(content: bytes, draw: random.Random) -> bytes:
    width = draw.choice((1, 2, 4, 8))
    at = draw.randrange(max(1, min(len(content), draw.choice((400, 10**9))) - width))
    value = draw.choice((b"\xff", b"\0", b"\x7f", b"\x80")) * width
    return content[:at] + value + content[at + width :]


def _remove(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + content[at + draw.choice((1, 4, 50)) :]


def _number(content: bytes, draw: random.Random) -> bytes:
    found = list(NUMBER.finditer(content))
    if not found:
        return _flip(content, draw)
    place = draw.choice(found)
    return content[: place.start()] + draw.choice(ABSURD) + content[place.end() :]


def _line(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = draw.randrange(len(lines))
    kind = draw.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, draw.choice(lines))
    else:
        before, sign, _ = lines[at].partition(draw.choice((b":", b"=")))
        lines[at] = before + sign + b" " + draw.choice(ABSURD)
    return b"\n".join(lines)


def _absurd_bytes(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(ABSURD) + content[at:]


BYTE_CHANGES = (_flip, _flip, _flip, _cut, _insert, _overwrite, _overwrite, _remove)
TEXT_CHANGES = (_number, _number, _line, _line, _absurd_bytes)


@contextmanager
def _worker(
    subjects: Sequence[Subject],
) -> Iterator[Callable[[int, int, int], tuple[Outcome, str]]]:
    """A process that mutates and reads; a function that asks it for one outcome."""
    context = multiprocessing.get_context("fork")  # the subjects' functions are at hand
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, subjects), daemon=True)
    process.start()
    there.close()
    contents = [subject.file.read_bytes() for subject in subjects]

    def ask(index: int, seed: int, number: int) -> tuple[Outcome, str]:
        here.send((index, seed, number))
        try:
            if here.poll(HANG_SECONDS):
                outcome, detail = here.recv()
                return Outcome(outcome), detail
            return Outcome.HANG, f"no answer within {HANG_SECONDS:.0f} s"
        except EOFError:
            process.join()
            return Outcome.CRASH, f"the process ended with {process.exitcode}"

    try:
        yield ask
    finally:
        process.kill()
        process.join()
        for subject, content in zip(subjects, contents, strict=True):
            subject.file.write_bytes(content)


def _serve(pipe: Any, subjects: Sequence[Subject]) -> None:
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    expected: dict[int, str] = {}
    while True:
        try:
            index, seed, number = pipe.recv()
        except EOFError:
            return
        subject = subjects[index]
        if index not in expected:
            expected[index] = str(subject.read(subject.file))
        outcome, detail = one(subject, seed, number, expected[index])
        pipe.send((str(outcome), detail))


def all_subjects(folder: Path) -> list[Subject]:
    """A valid file of every format, and of every file that the package writes."""
    from storms.samples import package_files, scan_files  # noqa: PLC0415 - they take seconds

    return [*scan_files(folder / "scans"), *package_files(folder / "package")]


def fingerprint(*arrays: Any) -> str:
    """A digest of arrays and of what else is read."""
    known = hashlib.sha256()
    for array in arrays:
        known.update(str(getattr(array, "shape", array)).encode())
        known.update(array.tobytes() if hasattr(array, "tobytes") else b"")
    return known.hexdigest()
