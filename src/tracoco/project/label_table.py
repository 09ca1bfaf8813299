"""Which structures and slices of each label are drawn: a table, or one word for all labels."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracoco.errors import UserError, collected, did_you_mean, raise_all
from tracoco.project.cases import ALL_DRAWN, AXES, Case, Drawn
from tracoco.project.labels import IGNORE, generic_name
from tracoco.settings import Settings, checked

COLUMNS = ("case", "structures", "slices")


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """What a person says of labels that are not drawn everywhere."""

    ignore: int | None = None
    """The value of voxels that nobody has drawn or looked at."""
    slices: str | None = None
    """One of `AXES`: in all labels, slices without any structure were not drawn."""
    table: Path | None = None
    """Says of single labels what was drawn."""

    def __post_init__(self) -> None:
        """Refuse what is no name of slices."""
        if self.slices is not None:
            _check_slices(self.slices, "--drawn-slices")


AS_DRAWN = LabelChoice()
"""All labels are drawn everywhere, as far as nothing else is known."""


class _Row(Settings):
    structures: tuple[str | int, ...] | None = None
    slices: str | None = None


def chosen_ignore(choice: LabelChoice, found: int | None, names: Mapping[int, str]) -> int | None:
    """The ignore value: the person's, or the one that the data names.

    Args:
        choice: of the person.
        found: of the data.
        names: of the structures that the data names.
    """
    asked = choice.ignore
    if asked is not None and found not in (None, asked):
        raise UserError(
            f"--ignore-label is {asked}, but the data calls value {found} '{IGNORE}'; leave the "
            "option out, or correct the data"
        )
    value = found if asked is None else asked
    known = {0: "the background", **{key: f"the structure '{name}'" for key, name in names.items()}}
    if value in known:
        raise UserError(
            f"the ignore value {value} is also {known[value]}; a value is one or the other. Choose "
            "another value for what is not drawn"
        )
    return value


def with_drawn(
    cases: Sequence[Case], choice: LabelChoice, names: Mapping[int, str], new: Sequence[str]
) -> tuple[Case, ...]:
    """The cases with what of their labels is drawn; all problems of the table are named at once.

    Args:
        cases: all cases.
        choice: of the person.
        names: of the structures, as far as they are known.
        new: ids of the cases whose label is new, for what is said of all.
    """
    rows = _read(choice.table) if choice.table else {}
    known = {case.id: case for case in cases}
    problems: list[str] = []
    drawn: dict[str, Drawn] = {}
    for id_, row in rows.items():
        with collected(problems):
            if id_ not in known:
                raise UserError(
                    f"{choice.table} names case '{id_}', which the project does not have; "
                    f"{did_you_mean(id_, known)}"
                )
            if known[id_].label is None:
                raise UserError(
                    f"{choice.table} names case '{id_}', which has no label; add the label, or "
                    "take the line out"
                )
            structures = row.structures
            values = None if structures is None else _values(structures, names, choice.table)
            drawn[id_] = Drawn(values, row.slices)
    raise_all(problems)
    usual, added = replace(ALL_DRAWN, slices=choice.slices), set(new)
    return tuple(
        replace(case, drawn=drawn.get(case.id, usual if case.id in added else case.drawn))
        if case.label
        else case
        for case in cases
    )


def _read(file: Path) -> dict[str, _Row]:
    if not file.is_file():
        raise UserError(f"{file} does not exist; give a CSV or JSON file about the labels")
    try:
        text = file.read_text(encoding="utf-8-sig")
        content = json.loads(text) if file.suffix.lower() == ".json" else _from_csv(file, text)
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{file} is no CSV or JSON in UTF-8 ({error}); save it as one") from error
    if not isinstance(content, dict):
        raise UserError(f'{file} is no object of cases; write {{"CASE": ["STRUCTURE"], ...}}')
    rows = {
        str(id_): checked(
            _Row, {"structures": row} if isinstance(row, list) else row, f"{file}, case '{id_}'"
        )
        for id_, row in content.items()
    }
    for id_, row in rows.items():
        if row.slices is not None:
            _check_slices(row.slices, f"{file}, case '{id_}': slices")
    return rows


def _from_csv(file: Path, text: str) -> dict[str, dict[str, Any]]:
    """A line a case; structures are parted by semicolons, and an empty cell stands for all."""
    reader = csv.DictReader(text.splitlines(), restkey="?", restval="")
    columns = [column.strip().lower() for column in reader.fieldnames or ()]
    reader.fieldnames = columns
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown or "case" not in columns:
        raise UserError(
            f"{file} has the columns {', '.join(columns) or 'none'}; they are "
            f"{', '.join(COLUMNS)}, of which the first is needed"
        )
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(reader, start=2):
        row = {key: str(value).strip() for key, value in line.items()}
        if row["case"] in rows or "?" in row:
            raise UserError(
                f"{file}, line {number}: case '{row['case']}' comes twice, or has too many cells; "
                "write one line a case, with structures parted by semicolons"
            )
        words = [word.strip() for word in row.get("structures", "").split(";") if word.strip()]
        rows[row["case"]] = {"structures": words or None, "slices": row.get("slices") or None}
    return rows


def _values(
    words: Sequence[str | int], names: Mapping[int, str], table: Path | None
) -> tuple[int, ...]:
    """The values of structures that are given by name or by value."""
    by_name = {name.casefold(): value for value, name in names.items()}
    values = []
    for word in words:
        text = str(word).removeprefix(generic_name(0)[:-1])
        value = by_name.get(str(word).casefold(), int(text) if text.isdecimal() else None)
        if not value:
            raise UserError(
                f"{table} names the structure '{word}', which is none of the project; "
                f"{did_you_mean(str(word), names.values())}"
            )
        values.append(value)
    return tuple(sorted(set(values)))


def check_structures(cases: Sequence[Case], values: Sequence[int]) -> None:
    """Refuse a structure by value that no label has."""
    raise_all(
        [
            f"the table of labels says that case '{case.id}' has structure {value} drawn, which is "
            f"none of the project; known are {', '.join(map(str, sorted(set(values) - {0})))}"
            for case in cases
            for value in case.drawn.structures or ()
            if value not in values
        ]
    )


def _check_slices(word: str, what: str) -> None:
    if word not in AXES:
        raise UserError(f"{what} is '{word}'; {did_you_mean(word, AXES)}")
