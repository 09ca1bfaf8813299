"""Real scans, for tests that skip without: `TRACOCO_DATA`, or shared/data beside the project."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[2] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """A folder or file of the shared data, or a skipped test."""
    path = Path(os.environ.get("TRACOCO_DATA") or BESIDE).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path
