"""HDF5 files that hold an image and, where there is one, its label; they say nothing of space."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from tracoco.scans.array_layouts import (
    IMAGE_NAMES,
    LABEL_NAMES,
    check_label_shape,
    describe_array,
    find_name,
    stored_array,
)
from tracoco.scans.scan import LabelScan, Scan, ScanHeader
from tracoco.scans.stored import as_image, as_label, readable, sound_header

Dataset = Any  # h5py has no types


def has_label(path: Path) -> bool:
    """Whether the file holds a label."""
    with _datasets(path) as datasets:
        return any(name in datasets for name in LABEL_NAMES)


def read_header(path: Path) -> ScanHeader:
    """Shape and channels of the image, or of the label if there is nothing else."""
    with _datasets(path) as datasets:
        return _describe(datasets, (*IMAGE_NAMES, *LABEL_NAMES), path)


def read_image(path: Path) -> Scan:
    """Read the image as float32 [C, X, Y, Z], axes as they are stored."""
    with _datasets(path) as datasets:
        array = datasets[find_name(datasets, IMAGE_NAMES, path)][()]
    return as_image(stored_array(array, path))


def read_label(path: Path) -> LabelScan:
    """Read the label as integers [X, Y, Z], axes as they are stored."""
    with _datasets(path) as datasets:
        name = find_name(datasets, LABEL_NAMES, path)
        label = _describe(datasets, (name,), path)
        check_label_shape(_describe(datasets, (*IMAGE_NAMES, name), path), label)
        array = datasets[name][()]
    return as_label(stored_array(array, path))


@contextmanager
def _datasets(path: Path) -> Iterator[dict[str, Dataset]]:
    """The arrays of a file by name; nothing of them is read yet."""
    with readable(path), sound_header(path, RuntimeError), h5py.File(path, "r") as file:
        yield {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}


def _describe(datasets: dict[str, Dataset], wanted: tuple[str, ...], path: Path) -> ScanHeader:
    dataset = datasets[find_name(datasets, wanted, path)]
    return describe_array(dataset.shape, dataset.dtype, path)
