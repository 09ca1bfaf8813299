"""What is in a folder, value by value, so that what two commands left can be compared.

Times of steps and dates differ between any two runs. Which values these are is not listed here: the
same command is run twice without disturbance, and what differs then is left out.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tracoco.runs.folder import load_checkpoint

State = dict[str, str]
"""Values by the file and the place in it, e.g. `project/splits.json labelled.0`."""
LOCKS = re.compile(r"\.tracoco-lock.*|\..*\.lock")
TEMPORARY = ".tracoco-tmp-"
BY_TIME = re.compile(r"json (rows\.\*\.scans\.\*\.stamp|(rounds\.\*\.)?weights)")
"""Kinds of values that depend on the moment: `stamp` is kept of scans that were left alone for some
seconds. The tensors of a checkpoint are compared one by one, so the digest of its file need not be:
a resumed run may store them in another order."""
MEASURED_ONCE = re.compile(r"/memory\.json peak_mb$")
"""What a run cannot know if it is killed between its last step and its end: nobody repeats that."""
NUMBER = re.compile(r"(?<=[ .])\d+(?=\.|$)")


def state_of(root: Path) -> State:
    """The values of all files below a folder, but locks, and curves named by time and process.

    Half-written files are left out too; `half_written` counts them.
    """
    return {
        f"{file.relative_to(root)} {place}": value
        for file in sorted(root.rglob("*"))
        if _counts(file)
        for place, value in _values(file)
    }


def _counts(file: Path) -> bool:
    left_out = file.name.startswith(TEMPORARY) or LOCKS.fullmatch(file.name)
    return file.is_file() and not left_out and file.parent.name != "tensorboard"


def half_written(root: Path) -> int:
    """Temporary files below a folder that nobody removed."""
    return sum(1 for _ in root.rglob(f"{TEMPORARY}*"))


def kind_of(place: str) -> str:
    """The place of a value without numbers: all steps of a log have the same kinds of values."""
    return NUMBER.sub("*", place)


def varying_kinds(first: State, second: State) -> set[str]:
    """Kinds of values that differ between two states."""
    return {
        kind_of(place)
        for place in first.keys() | second.keys()
        if first.get(place) != second.get(place)
    }


def differences(expected: State, found: State, varying: set[str]) -> list[str]:
    """What is missing, too many or of another value, in words."""
    different = []
    for place in sorted(expected.keys() | found.keys()):
        ours, theirs, kind = expected.get(place), found.get(place), kind_of(place)
        if ours is None:
            different.append(f"{place} is too many")
        elif theirs is None:
            different += [] if MEASURED_ONCE.search(place) else [f"{place} is missing"]
        elif ours != theirs and not (kind in varying or BY_TIME.search(kind)):
            different.append(f"{place} is {theirs} and not {ours}")
    return different


def _values(file: Path) -> Iterator[tuple[str, str]]:
    name = file.name
    if name.endswith(".pt"):
        yield from _leaves("", load_checkpoint(file))
    elif name.endswith(".json"):
        yield from _leaves("", json.loads(file.read_text(encoding="utf-8")))
    elif name.endswith(".jsonl"):
        records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        yield from _leaves("", records)
    elif name.endswith(".gz"):
        yield "", _digest(gzip.decompress(file.read_bytes()))
    else:
        yield "", _digest(file.read_bytes())


def _leaves(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(f"{place}.{key}" if place else str(key), part)
    elif isinstance(value, list | tuple) and value:
        for index, part in enumerate(value):
            yield from _leaves(f"{place}.{index}" if place else str(index), part)
    elif isinstance(value, torch.Tensor):
        array = value.contiguous().reshape(-1).view(torch.uint8)
        yield place, _digest(array.numpy().tobytes() + str(value.shape).encode())
    else:
        yield place, repr(value)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
