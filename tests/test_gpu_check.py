"""`make gpu-check`: its functions on a CPU with small crops, and what it says without a GPU."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fake_gpu import GPU, GPU_CAN_BE_FAKED, fake_gpu
from scripts import gpu_check
from scripts.gpu_check import Bench, Check, Row, all_checks, attempt, check_all, paper_presets

from tracoco.runs.folder import RunFolder
from tracoco.training.step_cost import StepMemory

SCRIPT = Path(gpu_check.__file__)
SMALL = ("network.name=light-unet", "network.filters=2", "data.workers=0")
SMALL_3D = ("data.crop=[16, 16, 16]", "inference.stride=[16, 16, 16]")
SMALL_2D = ("data.crop=[16, 16]", "inference.stride=[16, 16]")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


def bench(root: Path, *overrides: str) -> Bench:
    shapes = ((24, 24, 4), (24, 24, 20))
    return Bench(root, "cpu", steps=8, overrides=(*SMALL, *overrides), shapes=shapes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_line_and_succeeds(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 0
    assert result.stdout == "gpu-check: no CUDA device found; nothing was checked.\n"
    assert list(tmp_path.iterdir()) == []


def test_presets_are_those_of_the_paper_and_each_form_once() -> None:
    presets = paper_presets()
    assert {"la-8", "pancreas-6-as-released", "brats19-25", "acdc-literal"} <= set(presets)
    assert not {"paper", "la", "la-16", "demo", "la-cpu"} & set(presets)
    assert len(presets) == 9


def test_two_processes_are_tried_where_there_are_two_cards() -> None:
    one, two = (all_checks(["la-8", "acdc-7", "la-16"], cards) for cards in (1, 2))
    assert [check.preset for check in two if check.processes == 2] == ["la-8", "acdc-7"]
    assert [check for check in two if check.processes == 1] == one
    for preset in ("la-8", "acdc-7"):
        tried = {each for check in one if check.preset == preset for each in check.overrides}
        assert {"training.precision=fp16", "training.compile=true"} <= tried


def test_a_preset_is_trained_stopped_resumed_and_predicts(root: Path) -> None:
    row = attempt(Check("la-8"), bench(root, *SMALL_3D))
    assert row.passed, row.remarks
    assert "resumed at" in row.remarks
    seconds, peak, counted = row.figures
    assert float(seconds) > 0
    assert float(counted) > 0
    assert peak == ""  # there is no GPU whose memory could be read
    assert (root / "runs" / "la-8" / "predicted.nii.gz").exists()


def test_the_table_has_a_row_for_each_check_and_a_failure_stops_no_other(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = StepMemory(kept=3 * 10**9, checkpointed=10**9)
    monkeypatch.setattr(gpu_check, "step_memory", lambda *_: counted)
    checks = [
        Check("acdc-3", ("network.name=none",)),
        Check("acdc-3", ("training.checkpointing=true",)),
    ]
    out = tmp_path / "table.txt"
    assert check_all(checks, bench(root, *SMALL_2D), out) == 1
    text = out.read_text()
    assert text.strip() in capsys.readouterr().out
    failed, passed = [line for line in text.splitlines() if line.startswith("acdc-3")]
    assert "FAILED" in failed
    assert "none" in failed
    assert "ok" in passed
    assert "1.00" in passed  # with checkpointing, as the check asked for
    assert "1 of 2 checks passed" in text
    assert f"torch {torch.__version__}" in text


def test_a_setting_that_does_not_work_here_is_a_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracoco.training.acceleration.computes", lambda *_: False)
    row = attempt(Check("acdc-3", ("training.precision=fp16",)), bench(root, *SMALL_2D))
    assert not row.passed
    assert "training.precision=fp16 does not work" in row.remarks


def test_a_training_that_a_signal_does_not_stop_is_a_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.kill", lambda *_: None)
    row = attempt(Check("acdc-3"), bench(root, *SMALL_2D))
    assert row == Row(
        "acdc-3",
        passed=False,
        remarks="RuntimeError: a signal should have stopped it halfway, but it took 8",
    )


@pytest.mark.skipif(not GPU_CAN_BE_FAKED, reason="no fake GPU here")
def test_a_check_goes_all_the_way_on_a_fake_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned batches, half precision, the file of a run on a GPU, resume and predict."""
    monkeypatch.setattr("tracoco.training.distributed.choose_device", torch.device)
    monkeypatch.setattr("tracoco.inference.predictor.choose_device", torch.device)
    monkeypatch.setattr(gpu_check, "peak_memory", lambda _: lambda: 2 * 10**9)
    monkeypatch.setattr(gpu_check, "WARM_UP", 1)
    monkeypatch.setattr(gpu_check, "step_memory", lambda *_: None)
    where = replace(bench(tmp_path, *SMALL_2D), device=str(GPU), steps=4)
    settings = ("training.precision=fp16", "training.channels_last=true")
    where.project(2)
    with fake_gpu():
        row = attempt(Check("acdc-3", settings), where)
    assert row.passed, row.remarks
    assert row.figures[1:] == ("2.00", "")
    facts = RunFolder(tmp_path / "runs" / "acdc-3_precision=fp16_channels_last=true").facts()
    assert facts.device == "cuda:0"
    assert facts.computed is not None
    assert facts.computed.precision == "fp16"
    assert facts.computed.fused_optimizer


def test_the_header_names_the_cards_and_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="A card", total_memory=24 * 10**9)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    lines = gpu_check.machine("cuda")
    assert lines[1:3] == ["cuda:0: A card, 24.0 GB", "cuda:1: A card, 24.0 GB"]
    assert lines[3].startswith("driver ")


@pytest.mark.slow
def test_two_processes_train_as_one(root: Path) -> None:
    row = attempt(Check("acdc-3", processes=2), bench(root, *SMALL_2D))
    assert row.passed, row.remarks
