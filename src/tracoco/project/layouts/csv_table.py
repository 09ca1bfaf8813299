"""A CSV file with a line a case: image, label, group, split."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracoco.errors import UserError, collected, did_you_mean, raise_all
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.layouts.pairing import CHANNEL, Found, label_inside
from tracoco.project.splits import PARTS, Splits
from tracoco.scans.reader import is_scan, scan_stem

CHANNEL_COLUMN = re.compile(r"image_(\d+)")
COLUMNS = ("image", "label", "group", "split", "id")


def recognises(data: Path) -> bool:
    """Whether it is a CSV file."""
    return data.suffix.lower() == ".csv" and data.is_file()


def find(data: Path, _: Path | None) -> Found:
    """One case a line; paths are relative to the file."""
    lines = _read(data)
    problems: list[str] = []
    cases: dict[str, Case] = {}
    parts: dict[str, str] = {}
    for number, line in enumerate(lines, start=2):
        with collected(problems):
            case = _case(line, data.absolute().parent)
            if case.id in cases:
                raise UserError(f"case '{case.id}' comes twice; add a column 'id' to tell them")
            cases[case.id], parts[case.id] = case, _part(line, case)
            continue
        problems[-1] = f"{data}, line {number}: {problems[-1]}"
    raise_all([*problems, *unsafe_ids(cases)])
    splits = None
    if any(line.get("split") for line in lines):
        listed = {part: tuple(i for i in cases if parts[i] == part) for part in PARTS}
        splits = Splits(**listed, folds=())
    return Found(tuple(sorted(cases.values(), key=lambda case: case.id)), splits=splits)


def _read(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, restkey="?", restval="")
            columns = [column.strip().lower() for column in reader.fieldnames or ()]
            reader.fieldnames = columns
            lines = [{key: str(value).strip() for key, value in row.items()} for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file} is no CSV in UTF-8 ({error}); save it as one") from error
    for column in columns:
        if column not in COLUMNS and not CHANNEL_COLUMN.fullmatch(column):
            raise UserError(
                f"{file} has a column '{column}'; {did_you_mean(column, (*COLUMNS, 'image_0'))}"
            )
    if not any(column.startswith("image") for column in columns) or not lines:
        raise UserError(
            f"{file} has no line with an 'image'; "
            "its columns are image (or image_0, image_1, ...), label, group, split and id"
        )
    return lines


def _case(line: Mapping[str, str], root: Path) -> Case:
    columns = sorted(
        (column for column in line if CHANNEL_COLUMN.fullmatch(column)),
        key=lambda column: int(column.removeprefix("image_")),
    )
    images = [_path(root, line[column]) for column in ("image", *columns) if line.get(column)]
    if not images:
        raise UserError("there is no image; name one, or delete the line")
    label = _path(root, line["label"]) if line.get("label") else label_inside(images)
    id_ = line.get("id") or _id(images)
    return Case(id_, tuple(images), label, line.get("group") or None)


def _id(images: Sequence[Path]) -> str:
    stem = scan_stem(images[0])
    return CHANNEL.sub("", stem) if len(images) > 1 else stem


def _path(root: Path, name: str) -> Path:
    path = root / name
    if not path.exists():
        raise UserError(f"{path} does not exist; correct the name")
    if not is_scan(path):
        raise UserError(f"{path} is of no known format; give a scan")
    return path


def _part(line: Mapping[str, str], case: Case) -> str:
    """Where the case goes; without a word it is labelled if it has a label."""
    part = line.get("split", "").lower() or ("labelled" if case.label else "unlabelled")
    if part not in PARTS:
        raise UserError(f"split is '{part}'; {did_you_mean(part, PARTS)}")
    if part != "unlabelled" and not case.label:
        raise UserError(f"case '{case.id}' is '{part}', but has no label; add it, or change split")
    return part
