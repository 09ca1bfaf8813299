"""Try the paper's presets on this machine's GPU, and print one table that can be sent back.

Each preset trains for a few steps on synthetic scans at its real crop, is stopped halfway by a
signal, is resumed, and predicts a scan. Half precision, checkpointing, compilation and, where
there are two cards, two processes are tried with a preset in 2D and one in 3D. A check that fails
is a row of the table, and the others go on.

Without a GPU nothing is checked. The tests run the same functions on a CPU with small crops; they
cannot see the speed and the memory of a GPU, whether its kernels exist, or NCCL.
"""

import argparse
import gc
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

import nibabel as nib
import numpy as np
import torch

import tracoco
from tracoco.errors import first_line
from tracoco.inference.predict import predict_scans
from tracoco.presets import load_config, preset_chain, preset_names
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.training.step_cost import step_memory
from tracoco.training.train import train

HEADINGS = ("check", "result", "s/step", "peak GB", "counted GB", "remarks")
WARM_UP = 3
"""Steps that are not timed: a GPU first tries which convolutions are fastest."""
LABELLED, UNLABELLED = 3, 3
VARIANTS = (
    ("training.precision=bf16", "training.channels_last=true"),
    ("training.precision=fp16",),
    ("training.checkpointing=true",),
    ("training.compile=true",),
)


@dataclass(frozen=True, slots=True)
class Check:
    """A training to try."""

    preset: str
    overrides: tuple[str, ...] = ()
    processes: int = 1

    @property
    def name(self) -> str:
        """What stands in the table."""
        changes = [each.removeprefix("training.") for each in self.overrides]
        return " ".join([self.preset, *changes, *(["2 processes"] if self.processes > 1 else [])])

    @property
    def dimensions(self) -> Literal[2, 3]:
        """Of the scans that the preset is for, by the axes of its crop."""
        return 2 if len(load_config(self.preset).data.crop or ()) == 2 else 3


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a check."""

    name: str
    passed: bool
    figures: tuple[str, str, str] = ("", "", "")
    remarks: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where checks are carried out."""

    root: Path
    device: str = "cuda"
    steps: int = 20
    overrides: tuple[str, ...] = ()
    """Settings for every check; the tests ask for small crops and networks."""
    shapes: tuple[tuple[int, int, int], ...] = ((320, 320, 6), (160, 160, 128))
    """Of scans for 2D and for 3D; crops have room to translate."""

    def scans(self, dimensions: Literal[2, 3]) -> Path:
        """The folder of synthetic scans."""
        return self.root / f"scans{dimensions}d"

    def project(self, dimensions: Literal[2, 3]) -> Project:
        """A project of these scans; both are made when they are first asked for."""
        project = Project(self.root / f"project{dimensions}d")
        if not project.root.exists():
            for index in range(LABELLED + UNLABELLED):
                write_scan(self.scans(dimensions), index, self.shapes[dimensions - 2], dimensions)
            init_project(self.scans(dimensions), project.root, dimensions=dimensions)
            prepare(project)
        return project

    def settings(self, check: Check) -> list[str]:
        """What is changed of the preset: as many labels and steps as there are here."""
        sizes = [f"training.steps={self.steps}", f"data.labelled={LABELLED - 1}"]
        return [*sizes, *self.overrides, *check.overrides]


def paper_presets() -> list[str]:
    """The paper's presets, one for each form: of those that differ in labels, that with fewest."""
    forms: dict[str, list[tuple[float, str]]] = {}
    for name in preset_names():
        chain = preset_chain(name)
        if "paper" in chain[1:]:
            labels = load_config(name).data.labelled
            forms.setdefault(chain[1] if labels else name, []).append((labels or inf, name))
    return [min(form)[1] for form in forms.values()]


def all_checks(presets: Sequence[str], cards: int) -> list[Check]:
    """Every preset as it is; then all variants of the first in 2D and of the first in 3D."""
    plain = [Check(preset) for preset in presets]
    firsts = {check.dimensions: check.preset for check in reversed(plain)}.values()
    changed = [Check(preset, variant) for preset in firsts for variant in VARIANTS]
    return [*plain, *changed, *(Check(preset, processes=2) for preset in firsts if cards > 1)]


def write_scan(data: Path, index: int, shape: tuple[int, ...], dimensions: int) -> None:
    """Nested balls in noise, one for each class; the last scans have no label."""
    random = np.random.default_rng(index)
    centre = [random.uniform(0.4, 0.6) * n for n in shape]
    axes = np.ogrid[tuple(slice(n) for n in shape)]
    scaled = [(a - c) / n for a, c, n in zip(axes, centre, shape, strict=True)]
    distance = np.sqrt(scaled[0] ** 2 + scaled[1] ** 2 + scaled[2] ** 2)
    radii = (0.4, 0.3, 0.2) if dimensions == 2 else (0.3,)
    label = np.sum([distance < radius for radius in radii], axis=0).astype(np.uint8)
    image = (100 * label + random.normal(200, 20, shape)).astype(np.float32)
    affine = np.diag([1.0, 1.0, 8.0 if dimensions == 2 else 1.0, 1.0])
    for part, array in (("images", image), ("labels", label))[: 2 if index < LABELLED else 1]:
        path = data / part / f"case{index:03d}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        nib.save(nib.Nifti1Image(array, affine), path)


def attempt(check: Check, bench: Bench) -> Row:
    """Carry out a check; whatever goes wrong is its row."""
    run = bench.root / "runs" / check.name.replace(" ", "_")
    try:
        return (in_two_processes if check.processes > 1 else in_one_process)(check, bench, run)
    except Exception as error:  # noqa: BLE001 - one failure must not hide the other checks
        return Row(check.name, passed=False, remarks=f"{type(error).__name__}: {first_line(error)}")


def in_one_process(check: Check, bench: Bench, run: Path) -> Row:
    """Train half of the steps, resume, predict; then compare with what was asked and counted."""
    project = bench.project(check.dimensions)
    config = load_config(check.preset, bench.settings(check))
    used = peak_memory(bench.device)
    with stopped_after(run / "log.jsonl", bench.steps // 2):
        half = train(project, config, run, device=bench.device)
    if not (half.signal and 0 < half.steps < bench.steps):
        raise RuntimeError(f"a signal should have stopped it halfway, but it took {half.steps}")
    whole = train(project, config, run, resume=True, device=bench.device)
    peak = used()
    if whole.steps != bench.steps:
        raise RuntimeError(f"resumed at step {half.steps}, it ended at {whole.steps}")
    computed = RunFolder(run).facts().computed
    if computed and computed.notes:
        raise RuntimeError("; ".join(computed.notes))
    scan = bench.scans(check.dimensions) / "images" / "case000.nii.gz"
    (predicted,) = predict_scans(run, scan, run / "predicted.nii.gz", device=bench.device)
    counted = step_memory(config, project.load_plan())
    kind = "checkpointed" if config.training.checkpointing else "kept"
    size = getattr(counted, kind, None)  # a method that leaves torch cannot be counted
    figures = (seconds_per_step(run, half.steps), gigabytes(peak), gigabytes(size))
    remarks = f"resumed at {half.steps}, predicted in {predicted.seconds:.1f} s"
    return Row(check.name, passed=True, figures=figures, remarks=remarks)


def in_two_processes(check: Check, bench: Bench, run: Path) -> Row:
    """Train in two processes, as a person would start them."""
    sets = [part for setting in bench.settings(check) for part in ("--set", setting)]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    command += ["-m", "tracoco", "train", str(bench.project(check.dimensions).root)]
    command += ["-o", str(run), "--preset", check.preset, "--device", bench.device, *sets]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    steps = len(read_log(run / "log.jsonl"))
    if result.returncode or steps != bench.steps:
        said = [line for line in result.stderr.splitlines() if "rror" in line] or ["no error"]
        raise RuntimeError(f"exit code {result.returncode}, {steps} steps: {said[0].strip()}")
    return Row(check.name, passed=True, figures=(seconds_per_step(run, 0), "", ""))


@contextmanager
def stopped_after(log: Path, steps: int) -> Iterator[None]:
    """Ask this process to stop, as a cluster would, once a training has logged so many steps."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            if len(read_log(log)) >= steps:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    # Where the training has ended by itself, the signal must not end this program.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGTERM, before)


def peak_memory(device: str) -> Callable[[], int | None]:
    """A function that tells the most bytes of tensors on the GPU since now; None on a CPU."""
    if not device.startswith("cuda"):
        return lambda: None
    gc.collect()  # what is left of the check before would be counted
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return lambda: torch.cuda.max_memory_allocated(device)


def seconds_per_step(run: Path, resumed_at: int) -> str:
    """The median without the first steps of the training and of its second half."""
    cold = {*range(WARM_UP), *range(resumed_at, resumed_at + WARM_UP)}
    records = read_log(run / "log.jsonl")
    return f"{statistics.median(r.seconds for r in records if r.step not in cold):.3f}"


def gigabytes(size: int | None) -> str:
    """Bytes as a cell; empty where they are unknown."""
    return "" if size is None else f"{size / 1e9:.2f}"


def machine(device: str) -> list[str]:
    """What a reader must know of the machine."""
    versions = f"tracoco {tracoco.__version__}, torch {torch.__version__}"
    lines = [f"{versions}, Python {platform.python_version()}, {platform.platform()}"]
    if not device.startswith("cuda"):
        return [*lines, f"device: {device}"]
    for index in range(torch.cuda.device_count()):
        card: Any = torch.cuda.get_device_properties(index)
        lines.append(f"cuda:{index}: {card.name}, {card.total_memory / 1e9:.1f} GB")
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    cudnn = torch.backends.cudnn.version()
    return [*lines, f"driver {driver}, CUDA {torch.version.cuda}, cuDNN {cudnn}"]


def table(facts: Sequence[str], rows: Sequence[Row]) -> str:
    """Plain text that can be pasted into an issue."""
    results = [(r.name, "ok" if r.passed else "FAILED", *r.figures, r.remarks) for r in rows]
    lines = [HEADINGS, *results]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    end = f"{sum(row.passed for row in rows)} of {len(rows)} checks passed"
    return "\n".join(["gpu-check", *facts, "", *padded, "", end])


def check_all(checks: Sequence[Check], bench: Bench, out: Path) -> int:
    """Carry out checks one after the other, print and save the table; 1 if one of them failed."""
    rows = []
    for number, check in enumerate(checks, start=1):
        print(f"{number} of {len(checks)}: {check.name}", flush=True)
        rows.append(attempt(check, bench))
    text = table(machine(bench.device), rows)
    out.write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\nsaved as {out}; please send it back")
    return 0 if all(row.passed for row in rows) else 1


def main() -> int:
    """Check this machine's GPU, if it has one."""
    parser = argparse.ArgumentParser(description="Try the paper's presets on this machine's GPU.")
    parser.add_argument("--out", type=Path, default=Path("gpu-check.txt"), help="for the table")
    out: Path = parser.parse_args().out
    if not torch.cuda.is_available():
        print("gpu-check: no CUDA device found; nothing was checked.")
        return 0
    checks = all_checks(paper_presets(), torch.cuda.device_count())
    with tempfile.TemporaryDirectory() as folder:
        return check_all(checks, Bench(Path(folder)), out)


if __name__ == "__main__":
    sys.exit(main())
