"""Check the environment: versions, device, precision, memory, disk, threads and speed."""

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from packaging.requirements import Requirement

from tracoco.console import say
from tracoco.text import duration, html_table, short

if TYPE_CHECKING:
    from tracoco.project.plan import Plan

State = Literal["ok", "note", "problem"]
FOR_DEVELOPERS = ("bench", "dev", "docs")
"""Extras that a user of the package does not need."""
LITTLE_DISK_GB, LITTLE_MEMORY_GB = 10.0, 8.0
SLOW_DISK_MB = 100.0
"""Megabytes a second; crops are read from a memory-mapped store."""
WRITTEN_MB = 64
BUSY = 0.5
"""Load of other programs, as a fraction of the processors, from which times are longer."""
UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of the environment."""

    name: str
    value: str
    state: State = "ok"
    """`problem`: something does not work. `note`: it works, and the advice says what would help."""
    advice: str = ""
    kind: Literal["environment", "dependency", "extra"] = "environment"


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What was found out about this machine and this installation."""

    rows: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is a problem; notes may remain."""
        return all(row.state != "problem" for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"healthy": self.healthy, "rows": [asdict(row) for row in self.rows]}

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        cells = [(row.name, row.value, row.state, row.advice) for row in self.rows]
        return html_table(("what", "found", "", "advice"), cells)


def doctor(folder: Path | str = Path(), *, progress: bool = True) -> DoctorReport:
    """Check versions, device, precision, memory, disk, threads, speed and optional extras.

    It takes about ten seconds, most of them for a few training steps on noise.

    Args:
        folder: where projects will be; its disk is measured.
        progress: say on standard error what takes long.
    """
    rows = [*_installation(), *_machine(), *_disk(Path(folder))]
    began = time.monotonic()
    try:
        import torch  # noqa: F401, PLC0415 - it takes seconds, and its absence is a finding
    except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
        advice = "install torch for this machine, as its website says"
        return DoctorReport((*rows, Finding("torch", str(error), "problem", advice), *_extras()))
    rows.append(Finding("import of torch", f"{short(time.monotonic() - began)} s"))
    rows += [_device(), _threads()]
    if progress:
        say("timing a few training steps, about ten seconds")
    return DoctorReport((*rows, *_speed(), *_extras()))


def _installation() -> Iterator[Finding]:
    """The versions of the package and of what it needs."""
    from tracoco import __version__  # noqa: PLC0415 - the front door imports this module

    yield Finding("tracoco", __version__)
    yield Finding("Python", f"{platform.python_version()}, {sys.prefix}")
    yield Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    for requirement in _requirements():
        if requirement.marker is None:
            yield _dependency(requirement)


def _requirements() -> list[Requirement]:
    try:
        lines = importlib.metadata.requires("tracoco") or []
    except importlib.metadata.PackageNotFoundError:  # run from its sources, without installation
        lines = []
    return [Requirement(line) for line in lines]


def _dependency(requirement: Requirement) -> Finding:
    version = _version(requirement.name)
    if _is_there(requirement):
        return Finding(requirement.name, version or "", kind="dependency")
    advice = f"pip install '{requirement}'"
    return Finding(requirement.name, version or "missing", "problem", advice, "dependency")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_there(requirement: Requirement) -> bool:
    version = _version(requirement.name)
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _machine() -> Iterator[Finding]:
    """Memory and processors that this process may use."""
    total, limit = total_memory(), container_memory()
    memory = min(total or UNLIMITED, limit or UNLIMITED)
    if memory == UNLIMITED:
        yield Finding("memory", "unknown on this system")
    else:
        value = f"{memory / 1e9:.1f} GB" + (" (limit of the container)" if memory == limit else "")
        little = memory < LITTLE_MEMORY_GB * 1e9
        advice = "plan with --memory-gb 2, so that crops and batch are small" if little else ""
        yield Finding("memory", value, "note" if little else "ok", advice)
    usable, present = usable_processors(), os.cpu_count() or 1
    value = str(usable) if usable == present else f"{usable} of {present}"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < BUSY * present:
        yield Finding("processors", value)
    else:
        advice = "other programs are running: times below are longer than on an idle machine"
        yield Finding("processors", f"{value}, load {load:.1f}", "note", advice)


def total_memory() -> int | None:
    """The memory of the machine in bytes, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # as on Windows
        return None


def container_memory(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The limit of the control group, in bytes; None where there is none."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = int((root / name).read_text(encoding="ascii"))
        except (OSError, ValueError):  # `max` is no limit
            continue
        return limit if limit < UNLIMITED else None
    return None


def usable_processors() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _disk(folder: Path) -> Iterator[Finding]:
    """Free space and speed of the disk that projects will be on."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(there).free / 1e9
    little = free < LITTLE_DISK_GB
    advice = "prepared scans take 4 bytes a voxel; choose a larger disk" if little else ""
    yield Finding("disk", f"{free:.0f} GB free in {there}", "note" if little else "ok", advice)
    try:
        speed = _written_mb_per_second(there)
    except OSError as error:
        advice = "choose a folder that you may write to"
        yield Finding("disk speed", error.strerror or str(error), "problem", advice)
        return
    slow = speed < SLOW_DISK_MB
    advice = "keep projects on a local disk: crops are read from it at every step" if slow else ""
    yield Finding("disk speed", f"{speed:.0f} MB/s written", "note" if slow else "ok", advice)


def _written_mb_per_second(folder: Path) -> float:
    block = os.urandom(1_000_000)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        began = time.monotonic()
        for _ in range(WRITTEN_MB):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        return WRITTEN_MB / (time.monotonic() - began)


def _device() -> Finding:
    """What trainings run on by default."""
    import torch  # noqa: PLC0415 - see `doctor`

    from tracoco.runs.build import choose_device  # noqa: PLC0415 - it imports torch

    device = choose_device("auto")
    if device.type == "cuda":
        found = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
        names = ", ".join(f"{each.name} ({each.total_memory / 1e9:.0f} GB)" for each in found)
        advice = "torchrun trains one run on all of them" if len(found) > 1 else ""
        return Finding("device", f"{len(found)} x cuda: {names}", "ok", advice)
    if shutil.which("nvidia-smi"):
        advice = "torch sees no GPU: install a CUDA build of torch that fits the driver"
        return Finding("device", f"{device}, and a driver of NVIDIA", "problem", advice)
    if device.type == "mps":
        return Finding("device", "mps (GPU of Apple)")
    advice = "use the presets whose names end in -cpu, or train --minutes 30"
    return Finding("device", "cpu, no GPU", "note", advice)


def _threads() -> Finding:
    import torch  # noqa: PLC0415 - see `doctor`

    threads, usable = torch.get_num_threads(), usable_processors()
    value = f"{threads} of torch"
    if threads > usable:
        advice = f"more than processors; set OMP_NUM_THREADS={usable}"
        return Finding("threads", value, "problem", advice)
    if threads < usable and "OMP_NUM_THREADS" in os.environ:
        advice = f"OMP_NUM_THREADS={threads} leaves processors idle, unless several runs share them"
        return Finding("threads", value, "note", advice)
    return Finding("threads", value)


def _speed() -> Iterator[Finding]:
    """The precision that trainings would have, and how long their steps take."""
    from tracoco.presets import load_config  # noqa: PLC0415 - it imports much
    from tracoco.runs.build import choose_device, resolved, run_method  # noqa: PLC0415 - torch
    from tracoco.training.acceleration import PRECISIONS, settle_precision  # noqa: PLC0415 - torch
    from tracoco.training.step_cost import step_seconds  # noqa: PLC0415 - torch

    device = choose_device("auto")
    plan, config = _usual_plan(), load_config("la-cpu")
    config = resolved(config, plan)
    shape = (config.data.batch[0], plan.channels, *plan.crop)

    def settled(wanted: str) -> str:
        return settle_precision(run_method(config, plan), wanted, device, shape)[0]

    usable = ", ".join(["fp32", *(name for name in PRECISIONS if settled(name) == name)])
    yield Finding("precisions that work", f"{usable} (choices of training.precision)")
    yield Finding("precision by default", f"{settled('auto')} (training.precision=auto)")
    seconds = step_seconds(config, plan)
    value = f"{short(seconds)} s a step, {duration(config.training.length * seconds)} for "
    yield Finding("speed of a training", f"{value}{config.training.length:,} steps of {ABOUT}")


ABOUT = "TraCoCo with the preset la-cpu"


def _usual_plan() -> "Plan":
    """A plan of which the timed training is: crops as the preset `la-cpu` has them."""
    from tracoco.project.plan import Plan  # noqa: PLC0415 - it imports numpy

    return Plan(
        dimensions=3,
        channels=1,
        label_values=(0, 1),
        class_names=("background", "structure"),
        slice_axis=None,
        spacing_mm=(1.875, 1.875, 1.875),
        crop=(48, 40, 24),
    )


USES = {
    "bundle": "`python -m monai.bundle run` with exported bundles",
    "dicom": "DICOM segmentations as output, and series in lossless JPEG",
    "mlflow": "`train --track mlflow`",
    "monai": "networks of MONAI by their names",
    "onnx": "`tracoco export --format onnx`, and to predict with such files",
    "serve": "`tracoco serve`, to label in 3D Slicer",
    "slurm": "`tracoco submit` on a cluster",
    "tensorboard": "logs for TensorBoard",
    "wandb": "`train --track wandb`",
}
"""What an extra is for, in the words of a table."""


def _extras() -> Iterator[Finding]:
    """Which optional extras are there, and how to get the others."""
    requirements = [each for each in _requirements() if each.marker is not None]
    names = importlib.metadata.metadata("tracoco").get_all("Provides-Extra") or []
    for extra in sorted({*names} - {*FOR_DEVELOPERS}):
        needed = [each for each in requirements if _belongs(each, extra)]
        lacking = [each.name for each in needed if not _is_there(each)]
        title = f"extra {extra}"
        if not lacking:
            yield Finding(title, "installed", kind="extra")
            continue
        use = f", for {USES[extra]}" if extra in USES else ""
        advice = f"pip install 'tracoco[{extra}]'{use}"
        yield Finding(title, f"without {', '.join(lacking)}", "note", advice, "extra")


def _belongs(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra})
