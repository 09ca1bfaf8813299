"""Maps of small numbers as NIfTI: a byte a voxel, and the step from one level to the next."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracoco.files import atomic_path
from tracoco.scans.nifti import header_on
from tracoco.scans.scan import Grid, to_grid


def write_map(path: Path, levels: NDArray[np.uint8], step: float, grid: Grid) -> None:
    """Write canonical levels [X, Y, Z], or [K, X, Y, Z] as a 4D file, on the grid of a scan.

    Every program that knows NIfTI multiplies the levels by `step`.
    """
    volumes = levels if levels.ndim == 4 else levels[None]
    header = header_on(grid)
    header.set_data_dtype(np.uint8)
    header.set_data_shape(grid.shape if levels.ndim == 3 else (*grid.shape, len(volumes)))
    header.set_slope_inter(step, 0)
    header["vox_offset"] = header.single_vox_offset
    # One volume at a time: a large scan of many classes is not copied as a whole. The lowest level
    # of compression is several times as fast as the default, and its files hardly larger.
    with atomic_path(path) as temporary, gzip.open(temporary, "wb", compresslevel=1) as file:
        file.write(header.binaryblock.ljust(header.single_vox_offset, b"\0"))
        for volume in volumes:
            file.write(to_grid(volume, grid).tobytes("F"))
