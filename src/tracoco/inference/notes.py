"""The notes that `predict` leaves beside its files: what came of what.

Machines that share a folder write one note each, so that none writes over another's.
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracoco.files import read_json, write_json
from tracoco.inference.sources import PredictedCase

Note = dict[str, Any]
EARLIER = {"rows": [], "cct": False, "weights": "", "averaged": False}
"""What a note of an earlier version lacks."""


def note_file(folder: Path, shard: tuple[int, int] | None = None) -> Path:
    """`predictions.json`, or `predictions-2of4.json` for the second of four parts."""
    part = f"-{shard[0]}of{shard[1]}" if shard else ""
    return folder / f"predictions{part}.json"


def read_notes(folder: Path) -> dict[Path, Note]:
    """Every note of a folder, by its file."""
    files = [note_file(folder), *sorted(folder.glob("predictions-*of*.json"))]
    return {file: EARLIER | read_json(file) for file in files if file.exists()}


def merged_note(folder: Path) -> Note:
    """All notes of a folder as one; empty if there is none."""
    notes = list(read_notes(folder).values())
    rows: dict[str, Any] = {}
    for row in (row for note in notes for row in note["rows"]):
        kept = rows.setdefault(row["case"], row)
        if kept.get("seconds") is None:  # named, but not made yet
            rows[row["case"]] = row
    return notes[0] | {"rows": [rows[case] for case in sorted(rows)]} if notes else {}


def is_of(note: Note, origin: Note) -> bool:
    """Whether a note tells of predictions that were made with these weights, in this way."""
    return origin.items() <= note.items()


def further_files(folder: Path) -> set[str]:
    """Names of the files that are no labels: maps, which lie beside them."""
    rows = [row for note in read_notes(folder).values() for row in note["rows"]]
    return {Path(file).name for row in rows for file in row.get("files", {}).values()}


def case_row(case: PredictedCase) -> dict[str, Any]:
    """A case as a note has it."""
    paths = {"images": [*map(str, case.images)], "prediction": str(case.prediction)}
    return asdict(case) | paths | {"files": {name: str(f) for name, f in case.files.items()}}


class Ledger:
    """The note of one `predict`, written anew after each case: what is killed goes on there."""

    def __init__(
        self, file: Path, head: Note, cases: Iterable[PredictedCase], earlier: Note
    ) -> None:
        """`cases` are listed first, so that what an interruption leaves is known to be ours.

        Rows of an `earlier` note of the same kind stay.
        """
        self.file, self.head = file, head
        self.rows = {row["case"]: row for row in earlier.get("rows", [])}
        for case in cases:
            self._put(case)
        self._write()

    def add(self, case: PredictedCase) -> None:
        """Note a case that is done."""
        self._put(case)
        self._write()

    def _put(self, case: PredictedCase) -> None:
        row = case_row(case)
        earlier = self.rows.get(case.case, {}).get("files", {})  # of the same weights: they stay
        self.rows[case.case] = row | {"files": earlier | row["files"]}

    def _write(self) -> None:
        write_json(self.file, self.head | {"rows": list(self.rows.values())})
