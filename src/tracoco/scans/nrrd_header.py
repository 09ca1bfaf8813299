"""The text header of an NRRD file: which axes lie in space, where, and what the others are."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tracoco.errors import UserError
from tracoco.scans import checks
from tracoco.scans.content import sound_header
from tracoco.scans.scan import Affine

TO_RAS = {
    **dict.fromkeys(("right-anterior-superior", "ras"), (1, 1, 1)),
    **dict.fromkeys(("left-anterior-superior", "las"), (-1, 1, 1)),
    **dict.fromkeys(("left-posterior-superior", "lps"), (-1, -1, 1)),
}
MILLIMETRES = {"mm": 1.0, "m": 1000.0, "cm": 10.0, "um": 0.001, "": 1.0}
IN_SPACE = {"domain", "space", "???", "none"}
"""Kinds of axes that lie in space where the directions do not say otherwise."""
LONGEST_LINE = 100_000
"""Bytes; a line that is longer is no header's."""


@dataclass(frozen=True, slots=True, eq=False)
class NrrdHeader:
    """What the header says; `sizes` has the axis that runs fastest first."""

    fields: dict[str, str]
    """By name in lower case without spaces, since `data file` and `datafile` are the same."""
    sizes: tuple[int, ...]
    spatial: tuple[int, ...]
    """The axes that lie in space."""
    affine: Affine
    placed: bool

    @property
    def others(self) -> tuple[int, ...]:
        """The axes that do not lie in space; at most one of them is longer than 1."""
        return tuple(axis for axis in range(len(self.sizes)) if axis not in self.spatial)


def parse_header(file: IO[bytes], path: Path) -> NrrdHeader:
    """Read up to the empty line that ends a header, and refuse what cannot be placed."""
    if not file.readline(LONGEST_LINE).startswith(b"NRRD000"):
        raise UserError(f"{path} is not an NRRD file; copy or convert it again")
    fields = {}
    while line := file.readline(LONGEST_LINE).decode("utf-8", "replace").strip():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#") and not value.startswith("="):
            fields[name.replace(" ", "").lower()] = value.strip()
    with sound_header(path):
        sizes = tuple(int(size) for size in fields["sizes"].split())
        kinds = fields.get("kinds", "").lower().split() or ["???"] * len(sizes)
        directions = _directions(fields)
        if not len(sizes) == int(fields["dimension"]) == len(kinds) == len(directions or sizes):
            raise ValueError("its axes do not have a size, a kind and a direction each")
    spatial = _spatial_axes(kinds, directions)
    if len(spatial) != 3 or min(sizes) < 1:
        raise UserError(
            f"{path} has {len(spatial)} axes in space, and the sizes {sizes}; a scan has 3. Stack "
            "its slices, or mark an axis of channels by 'kinds: ... list'"
        )
    others = [axis for axis in range(len(sizes)) if axis not in spatial and sizes[axis] != 1]
    for axis in others:
        _check_kind(kinds[axis], sizes[axis], path)
    if len(others) > 1:
        raise UserError(f"{path} has {len(others)} axes beside those of space; save one volume")
    affine = _affine(fields, directions, spatial, path)
    return NrrdHeader(fields, sizes, spatial, affine, directions is not None)


def _directions(fields: dict[str, str]) -> list[tuple[float, ...] | None] | None:
    """The step along each axis, None for one that is not in space; None if the file has none."""
    if "spacedirections" not in fields:
        return None
    words = re.findall(r"none|\([^)]*\)", fields["spacedirections"])
    vectors = [None if word == "none" else _vector(word) for word in words]
    return [None if vector is None or np.isnan(vector).all() else vector for vector in vectors]


def _vector(text: str) -> tuple[float, ...]:
    vector = tuple(float(number) for number in text.strip("() ").split(","))
    if len(vector) != 3:
        raise ValueError(f"{text} is no vector in space")
    return vector


def _spatial_axes(
    kinds: list[str], directions: list[tuple[float, ...] | None] | None
) -> tuple[int, ...]:
    if directions is not None:
        return tuple(axis for axis, vector in enumerate(directions) if vector is not None)
    return tuple(axis for axis, kind in enumerate(kinds) if kind in IN_SPACE)


def _check_kind(kind: str, size: int, path: Path) -> None:
    """Refuse an axis whose values are no channels."""
    if kind == "time":
        raise checks.time_series(size, path)
    if "color" in kind:
        checks.check_voxel_type(np.dtype([(name, "u1") for name in "RGB"]), path)
    if kind == "complex":
        checks.check_voxel_type(np.dtype(np.complex64), path)


def _affine(
    fields: dict[str, str],
    directions: list[tuple[float, ...] | None] | None,
    spatial: tuple[int, ...],
    path: Path,
) -> Affine:
    """From voxels to RAS millimetres; without directions only as far as spacings are known."""
    space = fields.get("space", "").lower()
    affine = np.eye(4)
    if directions is None and not space:
        with sound_header(path):
            spacings = [float(side) for side in fields.get("spacings", "").split()]
            sides = [spacings[axis] if spacings else 1.0 for axis in spatial]
        affine[:3, :3] = np.diag([side if np.isfinite(side) and side else 1.0 for side in sides])
        return affine
    if directions is None:
        raise UserError(
            f"{path} names the space {space}, but has no 'space directions': nobody knows where "
            "its axes point. Save it again with them, or without the space"
        )
    if space not in TO_RAS:
        raise UserError(
            f"{path} has the space '{space}', which does not say where left and right are; write "
            "the right one into its header, e.g. 'space: left-posterior-superior'"
        )
    with sound_header(path):
        units = set(re.findall(r'"([^"]*)"', fields.get("spaceunits", ""))) or {""}
        (scale,) = {MILLIMETRES[unit] for unit in units}
        origin = _vector(fields.get("spaceorigin", "(0,0,0)"))
    affine[:3] = np.array([*(directions[axis] for axis in spatial), origin], dtype=float).T * scale
    affine[:3] *= np.array(TO_RAS[space])[:, None]
    return affine
