import pytest
import torch

from tracoco.methods.parts.cutmix import happens, uniform


def test_numbers_fill_their_range_and_follow_torchs_generator() -> None:
    torch.manual_seed(0)
    drawn = [uniform(-1, 3) for _ in range(2000)]
    assert -1 <= min(drawn) < -0.98
    assert 2.98 < max(drawn) < 3
    assert sum(drawn) / len(drawn) == pytest.approx(1.0, abs=0.1)
    torch.manual_seed(0)
    assert uniform(-1, 3) == drawn[0]


def test_what_happens_happens_in_its_share_of_the_draws() -> None:
    torch.manual_seed(0)
    assert sum(happens(0.8) for _ in range(2000)) / 2000 == pytest.approx(0.8, abs=0.03)
    assert not any(happens(0.0) for _ in range(100))
    assert all(happens(1.0) for _ in range(100))
