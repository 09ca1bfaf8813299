"""The peak of a training: counted anew for each run, and kept over a restart."""

import sys
from pathlib import Path

import pytest
import torch

from tracoco.files import write_json
from tracoco.studies.benchmark.results import counted_mb, noted_peak, peak_noted, start_count

CPU = torch.device("cpu")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")


@LINUX
def test_a_peak_holds_what_was_freed_since_and_forgets_what_came_before() -> None:
    assert start_count(CPU)
    before = counted_mb(CPU)
    torch.ones(25_000_000)  # 100 MB, freed at once
    after = counted_mb(CPU)
    start_count(CPU)
    again = counted_mb(CPU)
    assert after - before == pytest.approx(100, abs=10)
    assert again - before == pytest.approx(0, abs=10)


@LINUX
def test_a_run_in_parts_has_the_most_of_them(tmp_path: Path) -> None:
    write_json(tmp_path / "memory.json", {"peak_mb": 1e6})
    (tmp_path / "config.yaml").touch()
    with peak_noted(tmp_path, CPU):
        pass
    assert noted_peak(tmp_path) == 1e6
    (tmp_path / "memory.json").unlink()
    with pytest.raises(KeyboardInterrupt), peak_noted(tmp_path, CPU):
        raise KeyboardInterrupt
    found = noted_peak(tmp_path)
    assert found is not None
    assert 50 < found < 1e5


def test_nothing_is_noted_where_the_system_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracoco.studies.benchmark.results.RESET", tmp_path / "no" / "clear_refs")
    with peak_noted(tmp_path, CPU):
        pass
    assert noted_peak(tmp_path) is None


def test_a_folder_that_was_never_made_is_not_made_for_the_note(tmp_path: Path) -> None:
    with peak_noted(tmp_path / "run", CPU):
        pass
    assert not (tmp_path / "run").exists()


def test_a_start_that_fails_leaves_no_peak_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), peak_noted(tmp_path, torch.device("cpu")):
        raise OSError("full")
    assert not list(tmp_path.iterdir())
