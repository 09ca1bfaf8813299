"""What comes of a scan: its labels and maps, and how they are written on the scan's grid."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.inference.components import remove_small_components
from tracoco.inference.scan_maps import ByteMap
from tracoco.scans.nifti_maps import write_map
from tracoco.scans.reader import write_label
from tracoco.scans.scan import Grid, Scan


@dataclass(frozen=True, slots=True)
class Prediction:
    """Label values [X, Y, Z] of a scan; `scan` is there if it was read from a file."""

    label: NDArray[np.integer[Any]]
    scan: Scan | None
    maps: Mapping[str, ByteMap] = field(default_factory=dict)
    """Those that were asked for, by name: see `Predictor.__call__`."""

    def without_specks(self) -> "Prediction":
        """The same without components that are too small to be believed (CCT)."""
        return replace(self, label=remove_small_components(self.label))

    def write(self, path: Path) -> None:
        """Write the labels on the grid of the file that the scan came from."""
        write_label(path, self.label, self._grid())

    def write_map(self, name: str, path: Path) -> None:
        """Write one of the maps on that grid, as NIfTI; classes are its fourth axis."""
        found = self.maps[name]
        write_map(path, found.levels, found.step, self._grid())

    def _grid(self) -> Grid:
        if self.scan is None:
            raise ValueError("a prediction of an array has no file's grid to be written on")
        return self.scan.grid
