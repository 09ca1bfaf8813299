"""Every format of `tracoco export` beside the run that it is of, on real scans.

    python -m benchmarks.export_parity PROJECTS OUT      # measure, and write the table of the page
    python -m benchmarks.export_parity                   # the table alone

PROJECTS holds the projects that `make real` makes; OUT takes short runs, models and predictions.
What is in OUT already is not trained again. Needs the extras `onnx` and `bundle`, and a package
index: ONNX files are used in a virtual environment in OUT that has no torch.
"""

import os
import resource
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
from numpy.typing import NDArray
from packaging.requirements import Requirement

import tracoco as tc
from benchmarks.real.markdown import table
from tracoco.console import say
from tracoco.files import read_json, write_json, write_text
from tracoco.inference.export import LOADERS, SUFFIXES, Format, export_run
from tracoco.inference.portable import ModelDescription, PortablePredictor
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.project.folder import Project
from tracoco.project.preprocess import to_network_grid
from tracoco.scans.reader import read_image, read_images, read_label
from tracoco.settings import checked

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "how-to" / "export.md"
BEGIN, END = "<!-- formats: made by `benchmarks.export_parity` -->\n", "<!-- end of formats -->"
DATA = {
    "hippocampus": "hippocampus, 3D, windows of the crop's size",
    "btcv-pancreas": "BTCV pancreas, 3D, resampled, whole scans",
    "la": "Left Atrium, 3D, windows of the crop's size",
    "acdc": "ACDC, 2D",
}
"""Projects, each with the preset of its name, and what they are called in the table."""
STEPS, SCANS = 200, 4
RUN = "run"
"""In place of a format: the run itself."""
NOT_NEEDED = {
    "torch": "torch",
    "h5py": "h5py",
    "pydicom": "pydicom",
    "edt": "edt",
    "connected-components-3d": "cc3d",
    "jinja2": "jinja2",
    "matplotlib": "matplotlib",
}
"""Dependencies that predicting NIfTI scans with an ONNX file does without, and their modules."""
LIKE_OTHERS = """
import sys
from pathlib import Path
from benchmarks.export_parity import write_labels
write_labels(*sys.argv[1:2], *map(Path, sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One format with one data set."""

    data: str
    format: str
    megabytes: float
    """Of the file or folder, or of the run's checkpoint."""
    seconds: float
    """Processor time of a process that predicts all scans, with its start."""
    same_labels: float = 1.0
    """Fraction of voxels with the label of `tracoco predict RUN`, in the worst scan."""
    largest_difference: float = 0.0
    """Of a probability on the network's grid, over all scans."""


def main() -> None:
    """Measure if folders are given, and write the table."""
    if len(sys.argv) == 3:
        projects, out = map(Path, sys.argv[1:])
        plain = without_torch(out / "without-torch")
        rows = [row for data in DATA for row in measured(data, projects / data, out / data, plain)]
        packages = ("torch", "onnxruntime", "monai")
        machine = {name: version(name) for name in packages}
        write_json(RESULTS, {"versions": machine, "rows": [asdict(row) for row in rows]})
    write_text(PAGE, with_table(PAGE.read_text(encoding="utf-8"), read_json(RESULTS)))


def without_torch(folder: Path) -> Path:
    """The Python of a virtual environment that has what ONNX files need, and no torch."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pinned = ("--quiet", "--constraint", str(ROOT / "constraints.txt"))
        _run([str(python), "-m", "pip", "install", *pinned, *needed_without_torch()])
    _run([str(python), "-c", "import importlib.util as u; assert u.find_spec('torch') is None"])
    return python


def needed_without_torch() -> list[str]:
    """The names of the packages that an ONNX file needs, as the page has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = (Requirement(line).name for line in project["dependencies"])
    return [*(name for name in names if name not in NOT_NEEDED), "onnxruntime"]


def measured(data: str, project: Path, out: Path, plain: Path) -> Iterator[Row]:
    """A row for the run, and one for each format; `plain` is a Python without torch."""
    run, scans = _trained(data, project, out / "runs" / "run"), _scans(project, out / "scans")
    words = ["-m", "tracoco", "predict", str(run), str(scans), str(out / "labels" / RUN)]
    command = [sys.executable, *words]
    yield Row(data, RUN, _size(run / "last.pt"), _seconds(command, out / "labels" / RUN))
    for kind in SUFFIXES:
        yield _of_format(data, kind, run, scans, out, plain)  # type: ignore[arg-type]  # its keys are
        say(f"{data}: {kind} is done")


def _trained(data: str, project: Path, run: Path) -> Path:
    if not (run / "last.pt").exists():
        settings = {"training.steps": STEPS, "data.workers": 0}
        tc.train(project, method="supervised", preset=f"{data}-cpu", settings=settings, out=run)
    return run


def _scans(project: Path, folder: Path) -> Path:
    """The first test scans as NIfTI, which is what a MONAI bundle reads."""
    opened = Project(project)
    images = {case.id: case.images for case in opened.load_cases()}
    for case in opened.load_splits().test[:SCANS]:
        target = folder / f"{case}.nii.gz"
        folder.mkdir(parents=True, exist_ok=True)
        if images[case][0].name.endswith(".nii.gz"):
            shutil.copy(images[case][0], target)
        else:
            scan = read_images(images[case])
            nib.save(nib.Nifti1Image(scan.array[0], np.diag([*scan.spacing_mm, 1.0])), target)
    return folder


def _of_format(data: str, kind: Format, run: Path, scans: Path, out: Path, plain: Path) -> Row:
    model, labels = out / "models" / f"model-{kind}{SUFFIXES[kind]}", out / "labels" / kind
    _removed(model)
    exported = export_run(run, kind, model, sorted(scans.iterdir())[0])
    described = {
        name: value
        for name, value in read_json(exported.description_file).items()
        if name != "parity"
    }
    description = checked(ModelDescription, described, str(exported.description_file))
    files = [str(model), str(scans), str(labels)]
    command = {
        "onnx": [str(plain), "-m", "tracoco", "predict", *files],
        "monai-bundle": [sys.executable, "-m", "monai.bundle", "run", *_bundle_words(*files)],
    }.get(kind, [sys.executable, "-c", LIKE_OTHERS, kind, *files])
    seconds = _seconds(command, labels)
    same = [
        (read_label(own).array == read_label(labels / own.name).array).mean()
        for own in sorted((out / "labels" / RUN).glob("*.nii.gz"))
    ]
    differences = _differences(run, kind, model, description, scans)
    return Row(data, kind, _size(model), seconds, float(min(same)), max(differences))


def _bundle_words(model: str, scans: str, labels: str) -> list[str]:
    named = {
        "config_file": f"{model}/configs/inference.json",
        "bundle_root": model,
        "image_dir": scans,
        "output_dir": labels,
    }
    return [word for name, path in named.items() for word in (f"--{name}", path)]


def _removed(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _seconds(command: Sequence[str], labels: Path) -> float:
    """Processor time of a process that writes labels into a folder."""
    _removed(labels)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: Sequence[str]) -> None:
    """Run a program with this package on Python's path, or tell what it wrote to its errors."""
    source = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
    done = subprocess.run(  # noqa: S603 - our own commands
        command, env=os.environ | source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)


def _size(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def write_labels(kind: str, model: Path, scans: Path, labels: Path) -> None:
    """Predict with a model that has no command of its own, as its description says."""
    values = read_json(model.with_name(f"{model.name}.json"))
    del values["parity"]
    description = checked(ModelDescription, values, str(model))
    predictor = PortablePredictor(description, LOADERS[kind](model))
    labels.mkdir(parents=True)
    for scan in sorted(scans.iterdir()):
        predictor(scan).write(labels / scan.name)


def _differences(
    run: Path, kind: str, model: Path, description: ModelDescription, scans: Path
) -> Iterator[float]:
    """The largest difference of a probability in each scan, on the network's grid."""
    own, network = Predictor.load(run, device="cpu"), LOADERS[kind](model)
    volume = PortablePredictor(description, network).volume
    in_monai = _bundle_volume(model) if kind == "monai-bundle" else None
    for path in sorted(scans.iterdir()):
        scan = read_image(path)
        stored = to_network_grid(scan.array, scan.spacing_mm, own.plan)
        with own.predicting() as predict:
            cover = own.cover(stored.shape[1:])
            expected = predict_volume(predict, torch.from_numpy(stored), *cover).numpy()
        found = volume(stored)
        if in_monai:
            axes = (0, *(1 + axis for axis in own.plan.stored_axes))
            found = in_monai(path).transpose(axes)
        yield float(np.abs(found - expected).max())


def _bundle_volume(bundle: Path) -> Callable[[Path], NDArray[np.float32]]:
    """The probabilities that a bundle's own steps give a scan."""
    parser: Any = import_module("monai.bundle").ConfigParser()
    parser.read_config(str(bundle / "configs" / "inference.json"))
    parser["bundle_root"] = str(bundle)
    sys.path.insert(0, str(bundle))
    sys.modules.pop("tracoco_steps", None)
    prepared, inferer, network = map(
        parser.get_parsed_content, ("preprocessing", "inferer", "network_def")
    )
    sys.path.remove(str(bundle))

    def volume(path: Path) -> NDArray[np.float32]:
        with torch.no_grad():
            found: NDArray[np.float32] = inferer(
                prepared({"image": str(path)})["image"][None], network
            )[0].numpy()
        return found

    return volume


def with_table(page: str, results: dict[str, Any]) -> str:
    """The page with the results as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = ("format", "same labels", "probabilities", "size, MB", "processor seconds")
    lines = []
    for data, name in DATA.items():
        lines.append([f"**{name}**", "", "", "", ""])
        rows = (Row(**row) for row in results["rows"] if row["data"] == data)
        lines += [_cells(row) for row in rows]
    return f"{before}{BEGIN}{table(head, lines)}{END}{after}"


def _cells(row: Row) -> list[str]:
    same, difference = f"{100 * row.same_labels:.4f} %", f"{row.largest_difference:.1e}"
    figures = [f"{row.megabytes:.2f}", f"{row.seconds:.1f}"]
    return (
        ["the run", "", "", *figures]
        if row.format == RUN
        else [f"`{row.format}`", same, difference, *figures]
    )


if __name__ == "__main__":
    main()
