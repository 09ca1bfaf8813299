"""Memory does not grow with the number of scans, and time grows no faster than it."""

from pathlib import Path

import pytest
from load import costs

MANY, FEW = 240, 60
GROWTH_MB = 40


@pytest.mark.slow
def test_many_scans_take_no_more_memory_than_few(tmp_path: Path) -> None:
    few, many = (costs(tmp_path / str(count), count) for count in (FEW, MANY))
    for name, cost in many.items():
        assert cost.peak_mb - few[name].peak_mb < GROWTH_MB, name
        assert cost.seconds < 2 * MANY / FEW * few[name].seconds, name
