"""Mutated files of every format, and of every file that the package writes, are read or refused."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from storms.mutate import Outcome, Subject, all_subjects, mutated, storm
from storms.samples import scan_files

from tracoco.errors import UserError


def test_mutated_scans_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    tally = storm(scan_files(tmp_path), seed=0, seconds=60, most=400)
    assert not tally.failures, tally.failures[0]
    assert all(counter[Outcome.REFUSED] for counter in tally.counts.values())


@pytest.mark.slow
def test_mutated_files_of_every_kind_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    tally = storm(all_subjects(tmp_path), seed=1, seconds=240)
    assert not tally.failures, tally.failures[0]


def subject(path: Path, read: object, **more: bool) -> Subject:
    path.write_bytes(b"whole")
    return Subject("a", path, read, **more)  # type: ignore[arg-type]  # what each test needs


def test_each_outcome_is_told_from_the_others(tmp_path: Path) -> None:
    def refused(_: Path) -> None:
        raise UserError("one line")

    def broken(_: Path) -> None:
        raise KeyError("step")

    def hungry(_: Path) -> None:
        raise MemoryError

    def only_mutated(do: Callable[[Path], object]) -> Callable[[Path], str]:
        def read(path: Path) -> str:
            content = path.read_bytes()
            return content.hex() if content == b"whole" else str(do(path))

        return read

    known = {
        Outcome.REFUSED: refused,
        Outcome.TRACEBACK: broken,
        Outcome.MEMORY: hungry,
        Outcome.CRASH: lambda _: exec("import os; os._exit(1)"),  # noqa: S102 - as a library may
    }
    for wanted, do in known.items():
        tally = storm([subject(tmp_path / "a", only_mutated(do))], seed=3, seconds=20, most=3)
        assert tally.counts["a"][wanted] >= 2, wanted
    for checksum, wanted in ((True, Outcome.DIFFERENT), (False, Outcome.CHANGED)):
        plain = subject(tmp_path / "a", lambda path: path.read_bytes(), checksum=checksum)
        tally = storm([plain], seed=3, seconds=20, most=3)
        assert tally.counts["a"][wanted] >= 2
        assert (tmp_path / "a").read_bytes() == b"whole"


def test_a_seed_gives_the_same_mutations_again() -> None:
    def draw(seed: int) -> bytes:
        return mutated(bytes(range(200)), random.Random(seed), text=False)  # noqa: S311 - no secret

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(20)}) > 10
