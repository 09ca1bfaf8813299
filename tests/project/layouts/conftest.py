"""Data sets of empty files: pairing looks at names alone."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tracoco.project.layouts.pairing import Found

Touch = Callable[..., None]


@pytest.fixture
def touch(tmp_path: Path) -> Touch:
    def touch_files(*names: str) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()

    return touch_files


@pytest.fixture
def write_h5(tmp_path: Path) -> Touch:
    """Small HDF5 files that hold a label, unless told otherwise."""

    def write_files(*names: str, labelled: bool = True) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(tmp_path / name, "w") as file:
                file["image"] = np.zeros((2, 2, 2), np.float32)
                if labelled:
                    file["label"] = np.zeros((2, 2, 2), np.uint8)

    return write_files


@pytest.fixture
def short() -> Callable[[Found], list[tuple[object, ...]]]:
    """Cases as id, names of the images, name of the label, group."""

    def shorten(found: Found) -> list[tuple[object, ...]]:
        return [
            (
                case.id,
                "+".join(path.name for path in case.images),
                case.label.name if case.label else None,
                case.group,
            )
            for case in found.cases
        ]

    return shorten
