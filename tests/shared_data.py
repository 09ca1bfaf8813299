"""Real scans, for tests that skip without them: TRACOCO_DATA names their folder."""

import os
from pathlib import Path

import pytest


def shared_data(*parts: str) -> Path:
    """A folder or file of the shared data, or a skipped test."""
    root = os.environ.get("TRACOCO_DATA")
    if not root:
        pytest.skip("TRACOCO_DATA is not set")
    path = Path(root).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path
