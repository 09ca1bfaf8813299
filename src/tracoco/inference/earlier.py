"""What lies in the folder of predictions already: done, in the way, or somebody else's."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracoco.inference.notes import Note, case_row, is_of
from tracoco.inference.sources import PredictedCase


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
