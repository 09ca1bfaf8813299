"""Segments in the header of an NRRD file, as 3D Slicer writes them to `.seg.nrrd`.

Each segment has a name, a colour, a layer and a value in that layer. Segments of one layer cannot
overlap; a file of several layers has them along a further axis.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.scan import Shape, Structure

FIELD = re.compile(r"Segment(\d+)_(ID|Name|LabelValue|Layer|Color)")
MOST_NAME = 200
"""Characters of a name; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A structure, and where its voxels are in the file."""

    structure: Structure
    """With the value that it has in the merged label map."""
    layer: int
    stored: int
    """Its value in its layer."""


def parse_segments(pairs: Mapping[str, str], layers: int, path: Path) -> tuple[Segment, ...]:
    """The segments that a header describes, in the order of their numbers.

    They keep their values; where two layers use a value twice, segments are counted from 1.

    Args:
        pairs: `key:=value` of the header.
        layers: how many the file has.
        path: of the file, for errors.
    """
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for key, value in pairs.items():
        if match := FIELD.fullmatch(key):
            found[int(match[1])][match[2]] = value
    places = [_place(fields, index, layers, path) for index, (_, fields) in _ordered(found)]
    twice = sorted({place for place in places if places.count(place) > 1})
    if twice:
        raise UserError(
            f"{path} has two segments of the value {twice[0][1]} in layer {twice[0][0]}; remove "
            "one of them, and save it again"
        )
    own = len({value for _, value in places}) == len(places)
    return tuple(
        Segment(_structure(fields, value if own else index + 1), layer, value)
        for (index, (_, fields)), (layer, value) in zip(_ordered(found), places, strict=True)
    )


def _ordered(found: Mapping[int, Any]) -> list[tuple[int, tuple[int, Any]]]:
    return list(enumerate(sorted(found.items())))


def _place(fields: Mapping[str, str], index: int, layers: int, path: Path) -> tuple[int, int]:
    """Layer and value; files from before segments shared a layer have one layer for each."""
    apart = layers > 1 and "Layer" not in fields
    try:
        layer = int(fields.get("Layer", index if apart else 0))
        value = int(fields.get("LabelValue", 1 if apart else index + 1))
    except ValueError:
        layer, value = -1, 0
    if not 0 <= layer < layers or value < 1:
        raise UserError(
            f"{path} has a damaged header: segment {index} has the value "
            f"'{fields.get('LabelValue', '')}' in layer '{fields.get('Layer', '')}' of {layers}; "
            "save it again with the program that it comes from"
        )
    return layer, value


def _structure(fields: Mapping[str, str], value: int) -> Structure:
    name = " ".join((fields.get("Name") or fields.get("ID") or f"label {value}").split())
    return Structure(value, name[:MOST_NAME], _colour(fields.get("Color", "")))


def _colour(text: str) -> tuple[float, float, float] | None:
    try:
        red, green, blue = (float(word) for word in text.split())
    except ValueError:
        return None
    known = all(0 <= part <= 1 for part in (red, green, blue))
    return (red, green, blue) if known else None


def structures_of(segments: Sequence[Segment]) -> tuple[Structure, ...]:
    """What the segments stand for in the merged label map."""
    return tuple(segment.structure for segment in segments)


def merged_layers(layers: NDArray[Any], segments: Sequence[Segment], path: Path) -> NDArray[Any]:
    """One label map [X, Y, Z] of layers [L, X, Y, Z]; segments that overlap are refused."""
    highest = max(segment.structure.value for segment in segments)
    merged = np.zeros(layers.shape[1:], dtype=np.min_scalar_type(highest))
    for segment in segments:
        here = layers[segment.layer] == segment.stored
        shared = merged[here]
        if shared.any():
            raise _overlap(shared, segment, segments, path)
        merged[here] = segment.structure.value
    strange = int(np.count_nonzero(layers.any(axis=0) & (merged == 0)))
    if strange:
        raise UserError(
            f"{path} has {strange} voxels of no segment that its header names; save it again with "
            "the program that it comes from"
        )
    return merged


def _overlap(
    shared: NDArray[Any], segment: Segment, segments: Sequence[Segment], path: Path
) -> UserError:
    values, counts = np.unique(shared[shared > 0], return_counts=True)
    most = int(values[counts.argmax()])
    other = next(each.structure for each in segments if each.structure.value == most)
    return UserError(
        f"{path} has overlapping segments: {counts.sum()} voxels of '{segment.structure.name}' "
        f"also belong to another, e.g. '{other.name}'; a label map has one structure a voxel. Cut "
        "one from the other in the segment editor (mask: outside all segments), and save it again"
    )


def to_hex(colour: tuple[float, float, float]) -> str:
    """A colour as #rrggbb."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)


def from_hex(colour: str) -> tuple[float, float, float]:
    """The inverse."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return (red, green, blue)


def segment_lines(structures: Sequence[Structure], shape: Shape) -> str:
    """The lines of a header that make each structure a segment; empty without structures."""
    if not structures:
        return ""
    extent = " ".join(f"0 {size - 1}" for size in shape)
    lines = []
    for index, structure in enumerate(structures):
        fields = {
            "ID": f"Segment_{structure.value}",
            "Name": " ".join(structure.name.split()),
            "NameAutoGenerated": "0",
            "Color": " ".join(f"{part:.6f}" for part in structure.shown_colour),
            "ColorAutoGenerated": "0" if structure.colour else "1",
            "LabelValue": str(structure.value),
            "Layer": "0",
            # Of the whole file: what lies outside of it could be cut off.
            "Extent": extent,
            "Tags": "Segmentation.Status:inprogress|",
        }
        lines += [f"Segment{index}_{key}:={value}" for key, value in fields.items()]
    lines += [
        "Segmentation_ContainedRepresentationNames:=Binary labelmap|",
        # The first name is that of older versions.
        "Segmentation_MasterRepresentation:=Binary labelmap",
        "Segmentation_SourceRepresentation:=Binary labelmap",
        "Segmentation_ReferenceImageExtentOffset:=0 0 0",
    ]
    return "\n".join(lines) + "\n"
