"""nnU-Net 2.8.1 by its own code, on the same scans and for the same minutes as our runs.

    python -m benchmarks.peers.nnunet OUT                       # all data sets that have a project
    python -m benchmarks.peers.nnunet OUT la --seeds 0 1        # these seeds of one data set
    python -m benchmarks.peers.nnunet OUT la --minutes 1        # a trial, whose result is not kept

OUT is the folder of `make real`. What is done, each part once: an environment with nnU-Net is
installed below OUT; the prepared scans of a project are written as NIfTI, the labelled ones with
their labels and the test cases without; nnU-Net plans and prepares them by its own rules; it trains
for so many minutes with one thread, on every labelled scan, with its own losses, augmentation and
learning rate, which falls with the time in place of the epoch; and its probabilities of the test
cases go through our resampling to the grid of each scan, where our `evaluate` scores them. If
interrupted, the same command resumes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.material import write_nifti
from benchmarks.peers.trainer import PROGRESS, TRAINER, trainer_text
from benchmarks.real.collect import Values, read_committed, write_committed
from tracoco.console import say
from tracoco.errors import UserError, did_you_mean
from tracoco.evaluation.evaluate import evaluate
from tracoco.evaluation.scores import Protocol
from tracoco.files import read_json, write_json, write_text
from tracoco.inference.maps import ScanMaps
from tracoco.inference.prediction import Prediction
from tracoco.inference.predictor import resampled
from tracoco.project.folder import Project
from tracoco.project.preprocess import kept_box
from tracoco.project.store import Store
from tracoco.scans.reader import read_images
from tracoco.studies.benchmark.results import RunResult, case_dice

VERSION, TORCH = "2.8.1", "2.13.0"
ALONE = ("batchgenerators", "batchgeneratorsv2", "acvl-utils", "dynamic-network-architectures")
"""Installed without what they ask for, which would bring torchvision."""
OTHERS = (
    "SimpleITK nibabel scikit-image scikit-learn blosc2 imagecodecs einops fft-conv-pytorch "
    "seaborn requests tqdm graphviz yacs connected-components-3d future"
)
DATASET = "Dataset001_peer"
CONFIGURATION = "3d_fullres"
COMMITTED = Path(__file__).with_name("nnunet.json")
"""Results that the page shows."""


@dataclass(frozen=True, slots=True)
class Task:
    """A data set, its labels, and how long our two runs take there."""

    labelled: int
    minutes: Mapping[str, float]
    """Of TraCoCo and of supervised learning, by the names of the peer's rows."""


TASKS = {
    "la": Task(8, {"nnunet": 10, "nnunet-short": 1.3}),
    "hippocampus": Task(3, {"nnunet": 7.5, "nnunet-short": 1.2}),
    "brats19": Task(10, {"nnunet": 6.5, "nnunet-short": 1.2}),
    "btcv-pancreas": Task(4, {"nnunet": 2, "nnunet-short": 1.3}),
}


@dataclass(frozen=True, slots=True)
class Peer:
    """The environment of nnU-Net, and its folders for one project."""

    environment: Path
    root: Path

    def run(self, program: str, *arguments: str, **settings: str) -> None:
        """Run one of nnU-Net's commands with one thread; what it prints goes to a log."""
        folders = {f"nnUNet_{name}": str(self.root / name) for name in ("raw", "preprocessed")}
        ours = {
            **folders,
            "nnUNet_results": str(self.root / "results"),
            "nnUNet_compile": "f",
            "nnUNet_n_proc_DA": "0",
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            "CUDA_VISIBLE_DEVICES": "",
            **settings,
        }
        self.root.mkdir(parents=True, exist_ok=True)
        log = self.root / f"{program}.log"
        command = [str(self.environment / "bin" / program), *arguments]
        with log.open("ab") as file:
            ended = subprocess.run(  # noqa: S603 - nnU-Net's own command
                command, env=os.environ | ours, stdout=file, stderr=file, check=False
            )
        if code := ended.returncode:
            raise UserError(f"{program} failed ({code}); see {log}")


def install(folder: Path) -> Path:
    """Install nnU-Net into an environment of its own, once; the package never depends on it."""
    marker = folder / f"nnunetv2-{VERSION}.done"
    if marker.exists():
        return folder
    say(f"{folder}: installing nnU-Net {VERSION} and torch {TORCH}")
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    for words in (
        [f"torch=={TORCH}"],
        ["--no-deps", f"nnunetv2=={VERSION}", *ALONE, "timm<1.0.23"],
        OTHERS.split(),
    ):
        if subprocess.run([*pip, *words], check=False).returncode:  # noqa: S603 - its own pip
            raise UserError(f"{folder}: pip could not install {' '.join(words)}; see above")
    shutil.rmtree(_trainers(folder) / "primus", ignore_errors=True)  # it asks for torchvision
    write_text(marker, "")
    return folder


def _trainers(environment: Path) -> Path:
    (package,) = environment.glob("lib/python*/site-packages/nnunetv2")
    return package / "training" / "nnUNetTrainer"


def export(project: Project, labelled: int, raw: Path) -> None:
    """Write the prepared scans as nnU-Net reads them: the grid and the cases of our networks."""
    done = raw / "dataset.json"
    if done.exists():
        return
    store, splits, plan = Store(project.store_root), project.load_splits(), project.load_plan()
    if plan.dimensions != 3:
        raise UserError(f"{project.root} is a project of slices; the peer is set up for volumes")
    taught = splits.labelled[:labelled]
    for folder, ids in (("imagesTr", taught), ("imagesTs", splits.test)):
        for id_ in ids:
            case = store.case(id_)
            for number, channel in enumerate(case.image()):
                write_nifti(
                    raw / folder / f"{id_}_{number:04d}.nii.gz",
                    np.asarray(channel, np.float32),
                    case.spacing_mm,
                )
            if folder == "imagesTr":
                label = np.asarray(case.label(), np.uint8)
                write_nifti(raw / "labelsTr" / f"{id_}.nii.gz", label, case.spacing_mm)
    names = {"background": 0} | {name: i for i, name in enumerate(plan.class_names) if i}
    values = {
        "channel_names": {str(number): "MRI" for number in range(plan.channels)},
        "labels": names,
        "numTraining": len(taught),
        "file_ending": ".nii.gz",
    }
    write_json(done, values)


def prepare(peer: Peer) -> None:
    """Let nnU-Net plan and prepare."""
    plans = peer.root / "preprocessed" / DATASET / "nnUNetPlans.json"
    marker = plans.with_name("prepared.done")
    if not marker.exists():
        words = ("-d", "1", "-c", CONFIGURATION, "-np", "1", "-npfp", "1")
        # Its estimate of memory takes this number of workers as that of threads, so not 0.
        peer.run("nnUNetv2_plan_and_preprocess", *words, nnUNet_n_proc_DA="1")
        write_text(marker, "")


def train(peer: Peer, minutes: float, seed: int) -> Path:
    """Train for so many minutes, or what is left of them, and give the folder of the run."""
    results = peer.root / f"{minutes:g}-minutes-seed{seed}"
    folder = results / DATASET / f"{TRAINER}__nnUNetPlans__{CONFIGURATION}" / "fold_all"
    write_text(_trainers(peer.environment) / "variants" / f"{TRAINER}.py", trainer_text())
    if not (folder / "checkpoint_final.pth").exists():
        words = ("1", CONFIGURATION, "all", "-tr", TRAINER, "-device", "cpu", "--c")
        ours = {"PEER_MINUTES": f"{minutes:g}", "PEER_SEED": str(seed)}
        peer.run("nnUNetv2_train", *words, nnUNet_results=str(results), **ours)
    return folder


def predict(peer: Peer, project: Project, folder: Path) -> Path:
    """Predict the test cases, and bring the probabilities to the grids of their scans."""
    results = folder.parents[2]
    there, out = results / "probabilities", results / "predictions"
    cases = project.test_cases()
    if not all((there / f"{case.id}.npz").exists() for case in cases):
        source = peer.root / "raw" / DATASET / "imagesTs"
        words = ["-i", str(source), "-o", str(there), "-d", "1", "-c", CONFIGURATION, "-f", "all"]
        words += ["-tr", TRAINER, "-device", "cpu", "--save_probabilities", "--continue_prediction"]
        words += ["-npp", "1", "-nps", "1"]
        peer.run("nnUNetv2_predict", *words, nnUNet_results=str(results))
    plan = project.load_plan()
    for case in cases:
        scan = read_images(case.images)
        with np.load(there / f"{case.id}.npz") as file:
            # Theirs are [class, z, y, x].
            classes = torch.from_numpy(file["probabilities"]).float().permute(0, 3, 2, 1)
        box = kept_box(scan.array, plan)
        x, y, z = scan.array.shape[1:]
        found = ScanMaps((x, y, z), plan, (), box)
        target = [box.size[axis] for axis in plan.stored_axes]
        for rows, channels in resampled([classes], 0, classes.shape[1:], target):
            found.fill(0, rows, channels)
        out.mkdir(parents=True, exist_ok=True)
        Prediction(found.label, scan).write(out / f"{case.id}.nii.gz")
    return out


def score(project: Project, dataset: str, labelled: int, folder: Path, seed: int) -> RunResult:
    """What our `evaluate` says of the predictions, as a result like those of our own runs."""
    plan, progress = project.load_plan(), read_json(folder / PROGRESS)
    names = dict(zip(plan.label_values[1:], plan.class_names[1:], strict=True))
    protocol = Protocol()
    found = evaluate(folder.parents[2] / "predictions", project.root, protocol, names)
    summary = found.summary
    return RunResult(
        dataset=dataset,
        method="nnunet",
        labelled=labelled,
        unlabelled=0,
        seed=seed,
        steps=progress["steps"],
        checkpoint="last",
        cases=summary.cases,
        dice=summary.dice,
        jaccard=summary.jaccard,
        asd=summary.asd,
        hd95=summary.hd95,
        missed=summary.missed,
        units=protocol.units,
        empty=protocol.empty,
        cct=protocol.cct,
        watermark=project.load_origin().watermark,
        case_dice=case_dice(found),
        seconds=progress["seconds"],
        seconds_a_step=progress["seconds"] / max(1, progress["steps"]),
        seconds_a_case=0.0,  # it is not measured: their command predicts all cases at once
        versions={"nnunetv2": VERSION, "torch": TORCH},
        peak_mb=progress["peak_mb"],
        recipe="nnunet",
    )


def run_peer(out: Path, dataset: str, minutes: float, seed: int) -> RunResult:
    """Everything for one data set, one length and one seed, or what is left of it."""
    project, labelled = Project(out / dataset), TASKS[dataset].labelled
    root = out / "peers" / "nnunet"
    peer = Peer(install(root / "environment"), root / f"{dataset}-{labelled}-labels")
    export(project, labelled, peer.root / "raw" / DATASET)
    prepare(peer)
    folder = train(peer, minutes, seed)
    predict(peer, project, folder)
    return score(project, dataset, labelled, folder, seed)


def keep(path: Path, row: str, result: RunResult) -> None:
    """Add a result to those that the page shows."""
    name = f"{result.dataset}-{row}-{result.labelled}-labels-seed{result.seed}"
    values: Values = {"row": row, "run": name, **asdict(result)}
    write_committed(path, dict(sorted((read_committed(path) | {name: values}).items())))


def chosen_tasks(out: Path, names: Sequence[str]) -> list[str]:
    """The data sets that are asked for, or all that have a project."""
    for name in names:
        if name not in TASKS:
            raise UserError(f"there is no task '{name}'; {did_you_mean(name, TASKS)}")
    found = list(names) or [name for name in TASKS if Project(out / name).exists]
    missing = [name for name in found if not Project(out / name).exists]
    if missing or not found:
        lost = ", ".join(missing) or "any data set"
        raise UserError(f"{out} has no project of {lost}; `make real` makes them")
    return found


def main() -> None:
    """Say what will be done, and do it."""
    parser = argparse.ArgumentParser(description="Train nnU-Net on our data for our minutes.")
    parser.add_argument("out", type=Path, help="folder of the projects")
    parser.add_argument("datasets", nargs="*", help=f"of {', '.join(TASKS)}; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--minutes", type=float, help="a trial of this length; it is not kept")
    request = parser.parse_args()
    out: Path = request.out.absolute()
    try:
        asked = [
            (name, row, minutes, seed)
            for seed in request.seeds
            for name in chosen_tasks(out, request.datasets)
            for row, minutes in (
                {"trial": request.minutes} if request.minutes else TASKS[name].minutes
            ).items()
        ]
        for name, row, minutes, seed in asked:
            say(f"to do: {name}, {row}, {minutes:g} minutes of training, seed {seed}")
        for name, row, minutes, seed in asked:
            result = run_peer(out, name, minutes, seed)
            say(f"{name}, {row}, seed {seed}: Dice {result.dice:.1f} % in {result.steps} steps")
            if not request.minutes:
                keep(COMMITTED, row, result)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
