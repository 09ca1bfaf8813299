"""What a data set looks like before it is planned: sizes, spacings, channels, label values."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tracoco.errors import UserError, raise_all
from tracoco.files import write_json
from tracoco.project.cases import Case
from tracoco.project.problems import collected
from tracoco.project.splits import Splits
from tracoco.scans.reader import read_grid, read_grids, read_label
from tracoco.scans.scan import SAME_GRID, ScanHeader, Shape, Spacing, voxels_apart

MOST_VALUES = 256
"""A class index is a byte in the store."""


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """An image as its header describes it, axes in canonical order."""

    id: str
    shape: Shape
    spacing_mm: Spacing
    channels: int


@dataclass(frozen=True, slots=True)
class LabelFacts:
    """A value of the label maps, how many voxels have it, and in how many cases."""

    value: int
    voxels: int
    cases: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Every image and every label value; labels of unlabelled cases are not looked at."""

    cases: tuple[CaseFacts, ...]
    labels: tuple[LabelFacts, ...]


def take_fingerprint(cases: Sequence[Case], splits: Splits) -> Fingerprint:
    """Read all headers and the labels of annotated cases; raise all problems at once."""
    problems: list[str] = []
    facts = []
    voxels: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    annotated = splits.annotated
    for case in cases:
        image = None
        with collected(problems):
            image = read_grids(case.images)
            facts.append(CaseFacts(case.id, image.shape, image.spacing_mm, image.channels))
        if case.label and case.id in annotated:
            with collected(problems):
                counts = _label_counts(case.label, image)
                voxels.update(counts)
                holders.update(counts.keys())
    labels = tuple(LabelFacts(value, voxels[value], holders[value]) for value in sorted(voxels))
    problems += _channel_problems(facts)
    if not problems:  # a broken label would also be missed here
        problems += _value_problems([fact.value for fact in labels])
    raise_all(problems)
    return Fingerprint(tuple(facts), labels)


def write_fingerprint(path: Path, fingerprint: Fingerprint) -> None:
    """Write fingerprint.json."""
    write_json(path, asdict(fingerprint))


def check_geometry(image: ScanHeader, label: ScanHeader) -> None:
    """Refuse a label that does not lie on the voxels of its image."""
    if image.shape != label.shape:
        raise UserError(
            f"{label.source} has the shape {label.shape}, its image {image.source} "
            f"{image.shape}; resample the label to the grid of the image"
        )
    apart = voxels_apart(image.affine, label.affine, image.shape)
    if apart > SAME_GRID:
        raise UserError(
            f"{label.source} lies up to {apart:.3g} voxels away from its image {image.source}, "
            "by the affines of both; resample the label, or copy the affine if only that is wrong"
        )


def _label_counts(path: Path, image: ScanHeader | None) -> dict[int, int]:
    if image:
        check_geometry(image, read_grid(path))
    label = read_label(path)
    values, counts = np.unique(label.array, return_counts=True)
    if values[0] < 0 or len(values) > MOST_VALUES:
        raise UserError(
            f"{path} is not a label map: it has {len(values)} values from {values[0]} to "
            f"{values[-1]}; at most {MOST_VALUES} from 0 on are allowed. Check that it is no image"
        )
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _channel_problems(facts: Sequence[CaseFacts]) -> list[str]:
    counts = Counter(fact.channels for fact in facts)
    if len(counts) < 2:
        return []
    usual = counts.most_common(1)[0][0]
    return [
        f"case '{fact.id}' has {fact.channels} channels, most have {usual}; give all the same"
        for fact in facts
        if fact.channels != usual
    ]


def _value_problems(values: Sequence[int]) -> list[str]:
    if not any(values):
        return ["the labels hold nothing but background (0); at least one structure is needed"]
    if len({0, *values}) > MOST_VALUES:
        return [f"the labels hold {len(values)} values together; at most {MOST_VALUES} are allowed"]
    return []
