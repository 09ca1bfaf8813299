"""Which prediction belongs to which truth; a missing one is a problem, never a shorter table."""

from dataclasses import dataclass
from pathlib import Path

from tracoco.errors import UserError
from tracoco.inference.notes import further_files
from tracoco.project.folder import Project
from tracoco.project.layouts.community import case_name, volumes_below
from tracoco.scans.reader import scans_in


@dataclass(frozen=True, slots=True)
class Pair:
    """Two files of one case."""

    case: str
    prediction: Path
    truth: Path


def pair_files(prediction: Path, truth: Path) -> tuple[list[Pair], list[str]]:
    """Two files make one pair; two folders are paired by stem. Also what keeps files unpaired.

    A project as truth stands for the labels of its test cases.
    """
    for path in (prediction, truth):
        if not path.exists():
            raise UserError(f"{path} does not exist")
    if prediction.is_dir() != truth.is_dir():
        raise UserError(
            f"{prediction} and {truth} are a file and a folder; give two files or two folders"
        )
    if prediction.is_file():
        return [Pair(case_name(truth), prediction, truth)], []
    problems: list[str] = []
    predictions = _by_stem(prediction, problems)
    if Project(truth).exists:
        truths = {case.id: case.label for case in Project(truth).test_cases() if case.label}
    else:
        truths = _by_stem(truth, problems, below=True)
    for stem in sorted(predictions.keys() ^ truths.keys()):
        problems.append(
            f"{predictions[stem]} has no truth: {truth} has no '{stem}'; add it, or move it away"
            if stem in predictions
            else f"{truths[stem]} has no prediction: {prediction} has no '{stem}'; predict it first"
        )
    shared = sorted(predictions.keys() & truths.keys())
    return [Pair(stem, predictions[stem], truths[stem]) for stem in shared], problems


def _by_stem(folder: Path, problems: list[str], *, below: bool = False) -> dict[str, Path]:
    """The labels of a folder by case; those of HDF5 scans in folders below it only if asked.

    Predictions never lie there: a folder of scans in their place would be scored with itself.
    """
    found: dict[str, Path] = {}
    maps = further_files(folder)  # they lie beside the labels that they belong to
    for path in (path for path in scans_in(folder) if path.name not in maps):
        name = case_name(path)
        first = found.setdefault(name, path)
        if first != path:
            problems.append(f"{first} and {path.name} are both '{name}'; keep one")
    if below and not found:
        found = volumes_below(folder)
    if not found:
        raise UserError(f"{folder} holds no scan; give the folder that the label files are in")
    return found
