"""Every fourth slice drawn in 8 scans, to be compared with 2 scans that are drawn whole.

    python -m benchmarks.real.partial DATA

counts what a person would have drawn for either: slices, slices with a structure, and voxels of
structures. Both have about as many slices; each is drawn as a whole, also where it is empty.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from tracoco.console import say
from tracoco.project.cases import Case
from tracoco.project.splits import Splits
from tracoco.scans.reader import read_label, write_label

Cases = dict[str, Case]
Find = Callable[[Path, Path], tuple[Cases, Splits]]
EVERY, SCANS, WHOLE = 4, 8, 2
"""One slice of so many is drawn, in so many scans, beside so many that are drawn whole."""
FIRST = 2
"""The first drawn slice: half of the gap before it, as between two drawn ones."""
AXIS = 1
"""Slices are coronal: across the long axis of the hippocampus, along which it is drawn by hand."""
IGNORE = 255


def every_fourth_slice(find: Find, data: Path, out: Path) -> tuple[Cases, Splits]:
    """The cases of a data set; of the first ones only every fourth slice is drawn."""
    cases, splits = find(data, out)
    for id_ in splits.labelled[:SCANS]:
        cases[id_] = replace(cases[id_], label=_written(cases[id_], out))
    return cases, splits


def _written(case: Case, out: Path) -> Path:
    assert case.label is not None  # noqa: S101 - it is one of the labelled cases
    label, path = read_label(case.label), out / "labels" / f"{case.id}.nii.gz"
    array = label.array.astype(np.uint8)
    array[~_drawn(array.shape)] = IGNORE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_label(path, array, label.grid)
    return path.absolute()


def _drawn(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    along = np.arange(shape[AXIS]) % EVERY == FIRST
    return np.broadcast_to(along[None, :, None], shape)


@dataclass(frozen=True, slots=True)
class Effort:
    """What a person draws."""

    slices: int
    with_structure: int
    voxels: int


def effort_of(labels: list[NDArray[np.uint8]]) -> Effort:
    """The sum over labels; `IGNORE` is what nobody has drawn."""
    slices = [each.take(index, AXIS) for each in labels for index in range(each.shape[AXIS])]
    drawn = [each for each in slices if (each != IGNORE).any()]
    voxels = [int(np.count_nonzero((each > 0) & (each != IGNORE))) for each in drawn]
    return Effort(len(drawn), sum(count > 0 for count in voxels), sum(voxels))


def main() -> None:
    """Count both kinds of drawing on the hippocampus."""
    from benchmarks.real.data_sets import hippocampus  # noqa: PLC0415 - it imports this file

    parser = argparse.ArgumentParser(description="Count what is drawn.")
    parser.add_argument("data", type=Path, help="folder of the real data")
    data = parser.parse_args().data
    with TemporaryDirectory() as folder:
        whole, splits = hippocampus(data, Path(folder))
        partly, _ = every_fourth_slice(hippocampus, data, Path(folder))
        kinds = {
            f"every fourth slice of {SCANS} scans": (partly, SCANS),
            f"{WHOLE} whole scans": (whole, WHOLE),
        }
        for name, (cases, count) in kinds.items():
            paths = [label for id_ in splits.labelled[:count] if (label := cases[id_].label)]
            effort = effort_of([read_label(path).array.astype(np.uint8) for path in paths])
            say(
                f"{name}: {effort.slices} slices, {effort.with_structure} of them with a "
                f"structure, {effort.voxels} voxels of structures"
            )


if __name__ == "__main__":
    main()
