"""The manifest beside predictions (`predictions.json`), and which outputs are there already.

Machines that share a folder write one note each, so that none writes over another's.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tracoco.files import read_json, write_json
from tracoco.inference.inputs import PredictedCase

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


def done_cases(
    cases: Sequence[PredictedCase], origin: Note, notes: Iterable[Note]
) -> list[PredictedCase]:
    """Cases that the same weights have predicted in the same way, with every file still there."""
    rows = [row for note in notes if is_of(note, origin) for row in note["rows"]]
    found = {}
    for case in cases:
        matches = (row for row in rows if _is_done(row, case))
        if row := next(matches, None):
            files = {name: Path(file) for name, file in row["files"].items()}
            found[case.case] = replace(case, seconds=row["seconds"], files=files)
    return list(found.values())


def overwritten(cases: Sequence[PredictedCase], notes: Iterable[Note]) -> list[str]:
    """Files that are not predictions of ours: scans, or labels that somebody drew by hand."""
    ours = {file for note in notes for row in note["rows"] for file in _files(row)}
    return [
        f"{file} exists and is no prediction of tracoco; choose another OUT"
        for case in cases
        for file in _files(case_row(case))
        if Path(file).exists() and file not in ours
    ]


def mixed(cases: Sequence[PredictedCase], origin: Note, notes: Iterable[Note]) -> list[str]:
    """Predictions made otherwise that would stay: scored together, they would pass for one."""
    replaced = {file for case in cases for file in _files(case_row(case))}
    problems = []
    for note in notes:
        if is_of(note, origin):
            continue
        same_name = all(note[key] == origin[key] for key in ("run", "checkpoint", "cct"))
        problems += [
            f"{file} is a prediction of {note['run']}, made with "
            f"{'other weights of ' if same_name else ''}the checkpoint {note['checkpoint']} and "
            f"{'with' if note['cct'] else 'without'} --cct; choose another OUT"
            for row in note["rows"]
            for file in _files(row)
            if file not in replaced and Path(file).exists()
        ]
    return problems


def _is_done(row: dict[str, Any], case: PredictedCase) -> bool:
    wanted = case_row(case)
    same = all(row.get(key) == wanted[key] for key in ("case", "images", "prediction"))
    made = same and row.get("seconds") is not None
    listed = made and wanted["files"].items() <= row.get("files", {}).items()
    return listed and all(Path(file).exists() for file in _files(wanted))


def _files(row: dict[str, Any]) -> Iterator[str]:
    yield row["prediction"]
    yield from row.get("files", {}).values()
