"""The log of a run: one JSON object a line, one line a step."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tracoco.files import full_disk_named, write_text

Record = dict[str, Any]


def read_log(path: Path) -> list[Record]:
    """All whole records; a line cut short by a kill is left out."""
    return list(_records(path)) if path.exists() else []


def rewind_log(path: Path, step: int) -> list[Record]:
    """Drop what was logged at `step` or later, since those steps are about to be taken again."""
    kept = [record for record in read_log(path) if record["step"] < step]
    write_text(path, "".join(json.dumps(record) + "\n" for record in kept))
    return kept


def _records(path: Path) -> Iterator[Record]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


class RunLog:
    """Appends records to `log.jsonl`, and to TensorBoard where it is installed."""

    def __init__(self, folder: Path, step: int) -> None:
        self._file: TextIO = (folder / "log.jsonl").open("a", encoding="utf-8")
        self._board = _tensorboard(folder, step)

    def write(self, record: Record) -> None:
        """Append one step."""
        with full_disk_named(Path(self._file.name)):
            self._file.write(json.dumps(_finite(record)) + "\n")
            self._file.flush()
            if self._board is not None:
                for name, value in _scalars(record):
                    self._board.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Close the files."""
        with full_disk_named(Path(self._file.name)):
            self._file.close()
            if self._board is not None:
                self._board.close()


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON has no word for: those of a step that overflowed."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scalars(record: Record) -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", inner) for key, inner in value.items())
        elif name != "step":
            yield name, float(len(value) if isinstance(value, list) else value)  # absent classes


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an optional extra
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step)
