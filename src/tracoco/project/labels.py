"""Labels as they count in a project: on the voxels of the image, by name, undrawn voxels marked.

Where nothing is drawn, a voxel of a labelled scan counts as unlabelled. No label of a file has a
value below 0, so such values say it in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.project.cases import ALL_DRAWN, AXES, Case, Drawn
from tracoco.scans.reader import may_name_structures, read_label, read_structures
from tracoco.scans.scan import LabelScan, ScanHeader, Structure, on_grid_of

UNDRAWN = -1
"""Of a voxel that nobody has looked at."""
NOT_OF_DRAWN = -2
"""Of a voxel that is none of the structures that were drawn: background, or one of the others."""
IGNORE = "ignore"
"""Name of the value, or of the segment, for voxels that nobody has looked at."""


@dataclass(frozen=True, slots=True)
class LabelRule:
    """What the values of label files mean in a project."""

    ignore: int | None = None
    """The value of voxels that nobody has looked at."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Structures by value, as far as they are known. Files that name theirs are read by name."""


PLAIN = LabelRule()
"""Every value is a structure, and nobody knows its name."""


def read_drawn(
    path: Path, image: ScanHeader, rule: LabelRule, drawn: Drawn = ALL_DRAWN
) -> LabelScan:
    """Read a label with the values of the project, on all voxels of its image.

    Args:
        path: of the label.
        image: the scan that it belongs to.
        rule: of the project.
        drawn: what of the label was drawn.

    Returns:
        The label, `UNDRAWN` or `NOT_OF_DRAWN` where that is all that is known.
    """
    return as_drawn(read_label(path), image, rule, drawn)


def as_drawn(
    label: LabelScan, image: ScanHeader, rule: LabelRule, drawn: Drawn = ALL_DRAWN
) -> LabelScan:
    """The same of a label that was read already."""
    path = label.source
    _refuse_negative(label, rule)
    label = on_grid_of(image, _by_name(label, rule))
    array = label.array
    undrawn = array == UNDRAWN
    if rule.ignore is not None:
        undrawn |= array == rule.ignore
    if drawn.slices:
        axis = AXES[drawn.slices]
        others = tuple(other for other in range(3) if other != axis)
        empty = ~((array > 0) & ~undrawn).any(axis=others, keepdims=True)
        undrawn = undrawn | empty
    if drawn.structures is None and not undrawn.any():
        return label
    marked = _signed(array)
    if drawn.structures is not None:
        _refuse_others(marked, undrawn, drawn.structures, rule, path)
        marked[marked == 0] = NOT_OF_DRAWN
    marked[np.broadcast_to(undrawn, marked.shape)] = UNDRAWN
    if (marked < 0).all():
        raise UserError(
            f"{path} has no drawn voxel: its slices or values all count as not drawn; draw some, "
            "or remove the file, and the scan counts as unlabelled"
        )
    return replace(label, array=marked)


def _by_name(label: LabelScan, rule: LabelRule) -> LabelScan:
    """The label with the project's value of each structure that the file names."""
    values = {_folded(name): value for value, name in rule.names.items()}
    moves: dict[int, int] = {}
    for structure in label.structures:
        name, own = _folded(structure.name), rule.names.get(structure.value)
        target = UNDRAWN if name == IGNORE else values.get(name)
        if target is None and own not in (None, generic_name(structure.value)):
            if not (label.array == structure.value).any():
                continue
            raise UserError(
                f"{label.source} names its value {structure.value} '{structure.name}', which is no "
                f"structure of the project: {', '.join(rule.names.values())}. Give it one of these "
                "names in the file, or correct class_names in plan.yaml"
            )
        moves[structure.value] = structure.value if target is None else target
    named = [each for each in label.structures if moves.get(each.value, UNDRAWN) != UNDRAWN]
    structures = tuple(replace(each, value=moves[each.value]) for each in named)
    label = replace(label, structures=structures)
    changed = {old: new for old, new in moves.items() if old != new}
    if not changed:
        return label
    low, high = min(changed.values()), max(changed.values())
    kind = np.result_type(label.array.dtype, np.min_scalar_type(low), np.min_scalar_type(high))
    array = label.array.astype(kind)
    for old, new in changed.items():
        array[label.array == old] = new
    return replace(label, array=array)


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def generic_name(value: int) -> str:
    """What a structure is called that nobody has named."""
    return f"label {value}"


def _signed(array: NDArray[Any]) -> NDArray[Any]:
    kind = np.result_type(array.dtype, np.int8)
    return array.astype(kind if kind.kind == "i" else np.int64)  # always a copy


def _refuse_negative(label: LabelScan, rule: LabelRule) -> None:
    if label.array.min() < 0:
        values = np.unique(label.array)
        if set(values[values < 0].tolist()) != {rule.ignore}:
            raise no_label_map(label, values)


def no_label_map(label: LabelScan, values: Sequence[int] | NDArray[Any]) -> UserError:
    """The problem of a label with too many values, or values below 0."""
    return UserError(
        f"{label.source} is not a label map: it has {len(values)} values from {min(values)} to "
        f"{max(values)}; at most {MOST_VALUES} from 0 on are allowed. Check that it is no image"
    )


MOST_VALUES = 254
"""A class index is a byte in the store, and two of its values mark voxels that are not drawn."""


def _refuse_others(
    array: NDArray[Any],
    undrawn: NDArray[np.bool_],
    structures: Sequence[int],
    rule: LabelRule,
    path: Path,
) -> None:
    found = set(np.unique(array[(array > 0) & ~undrawn]).tolist()) - set(structures)
    if found:
        names = ", ".join(f"'{rule.names.get(value, value)}'" for value in sorted(found))
        raise UserError(
            f"{path} has voxels of {names}, which the table of labels says is not drawn in it; "
            "correct the table or the label"
        )


def names_in_files(
    cases: Iterable[Case], given: Mapping[int, str], ignore: int | None
) -> dict[int, Structure]:
    """Structures by value: those that are given, and those that labels name.

    Segmentations of 3D Slicer, contours (RTSTRUCT) and folders of masks name theirs.

    A name that two files have with different values has one value in the project; labels are then
    read by name. Other files are not opened for their names.

    Args:
        cases: those whose label may be opened.
        given: names that are known already.
        ignore: the value that is no structure.
    """
    names = {value: Structure(value, name) for value, name in given.items()}
    unnamed, moved = "", ""
    values = {_folded(name): value for value, name in given.items()}
    for case in cases:
        if case.label is None:
            continue
        if not may_name_structures(case.label):
            unnamed = unnamed or str(case.label)
            continue
        try:
            structures = read_structures(case.label)
        except UserError:  # told with all else that is wrong, once the scans are read
            continue
        unnamed = unnamed or ("" if structures else str(case.label))
        for structure in structures:
            name = _folded(structure.name)
            if name in values:
                names[values[name]] = _coloured(names[values[name]], structure)
            if name in values or name == IGNORE:
                continue
            value = structure.value
            if value in names or value == ignore:
                value = max([*names, ignore or 0]) + 1
                moved = moved or f"{case.label} calls value {structure.value} '{structure.name}'"
            names[value] = replace(structure, value=value)
            values[name] = value
    if moved and unnamed:
        raise UserError(
            f"{moved}, other labels have another structure there, and {unnamed} names none, so "
            "that nobody knows what its values are; name the structures in all labels or in none"
        )
    return names


def _coloured(known: Structure, other: Structure) -> Structure:
    return replace(known, colour=known.colour or other.colour)
