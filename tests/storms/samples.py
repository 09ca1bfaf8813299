"""One small valid file of every format, and of every file that the package writes."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
from samples import make_project
from scans.dicom_samples import pack, write_series
from scans.itk_samples import VOLUME, write_meta, write_nrrd
from started_runs import start
from storms.mutate import Subject, fingerprint

from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import Protocol, read_evaluation
from tracoco.inference.manifest import merged_manifest
from tracoco.inference.predict import predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.project.fingerprint import read_fingerprint
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.scans.reader import read_image, read_label

AFFINE = np.diag([-1.0, -1.5, 2, 1])
LABEL = (VOLUME > 11).astype(np.uint8)


def scan_files(folder: Path) -> list[Subject]:
    """A file of each format that scans are read from."""
    places = {name: folder / name.replace(".", "-") / name for name in WRITERS}
    for name, path in places.items():
        path.parent.mkdir(parents=True)
        WRITERS[name](path)
    return [
        *(Subject(name, places[name], _image, name in CHECKED, name in TEXT) for name in WRITERS),
        *_dicom(folder),
    ]


def _image(path: Path) -> str:
    whole = path.with_suffix(".hdr") if path.suffix == ".img" else path
    scan = read_image(whole.with_suffix(".mhd") if whole.suffix == ".zraw" else whole)
    label = read_label(path).array if path.suffix in (".h5", ".npz") else ""
    return fingerprint(scan.array, scan.affine, scan.spacing_mm, label)


def _nifti(path: Path) -> None:
    nib.save(nib.Nifti1Image(VOLUME, AFFINE), path)


def _nifti_2(path: Path) -> None:
    nib.save(nib.Nifti2Image(VOLUME, AFFINE), path)


def _pair(path: Path) -> None:
    nib.save(nib.Nifti1Pair(VOLUME, AFFINE), path)


def _freesurfer(path: Path) -> None:
    nib.save(nib.MGHImage(VOLUME.astype(np.float32), AFFINE), path)


def _nrrd_gzip(path: Path) -> None:
    write_nrrd(path, {"encoding": "gzip"}, gzip.compress(VOLUME.tobytes("F"), mtime=0))


def _nhdr(path: Path) -> None:
    write_nrrd(path, {"data file": "voxels.raw"}, b"")
    path.with_name("voxels.raw").write_bytes(VOLUME.tobytes("F"))


def _mha(path: Path) -> None:
    write_meta(path, {"CompressedData": "True"}, zlib.compress(VOLUME.tobytes("F")))


def _mhd(path: Path) -> None:
    write_meta(path, {"ElementDataFile": "voxels.zraw", "CompressedData": "True"}, b"")
    path.with_name("voxels.zraw").write_bytes(zlib.compress(VOLUME.tobytes("F")))


def _npy(path: Path) -> None:
    np.save(path, VOLUME)


def _npz(path: Path) -> None:
    np.savez_compressed(path, image=VOLUME, label=LABEL)


def _hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, array in {"image": VOLUME, "label": LABEL}.items():
            file.create_dataset(name, data=array, chunks=(1, 3, 4), compression="gzip",
                                fletcher32=True)  # fmt: skip


def _hdf5_plain(path: Path) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        file["image"], file["label"] = VOLUME, LABEL


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.nii": _nifti,
    "two.nii": _nifti_2,
    "a.nii.gz": _nifti,
    "a.hdr": _pair,
    "a.mgh": _freesurfer,
    "a.mgz": _freesurfer,
    "a.nrrd": write_nrrd,
    "packed.nrrd": _nrrd_gzip,
    "a.nhdr": _nhdr,
    "a.mha": write_meta,
    "packed.mha": _mha,
    "a.mhd": _mhd,
    "a.npy": _npy,
    "a.npz": _npz,
    "a.h5": _hdf5,
    "plain.h5": _hdf5_plain,
}
CHECKED = ("a.nii.gz", "a.mgz", "a.npz")
"""All that is read of these is under a checksum."""
TEXT = ("a.nrrd", "packed.nrrd", "a.nhdr", "a.mha", "packed.mha", "a.mhd")


def _dicom(folder: Path) -> Iterator[Subject]:
    series = write_series(folder / "dicom")

    def read(path: Path) -> str:
        scan = read_image(path if path.suffix == ".zip" else path.parent)
        return fingerprint(scan.array, scan.affine, scan.spacing_mm)

    yield Subject("dicom", series / "02.dcm", read)
    (folder / "zip").mkdir()
    yield Subject("dicom.zip", pack(series, folder / "zip" / "a.zip"), read, checksum=True)


def package_files(folder: Path) -> list[Subject]:
    """A prepared project, a run of two steps, its predictions and scores."""
    project = make_project(folder, labelled=3, unlabelled=1, validation=1, test=1)
    run = project.runs_root / "short"
    start(project, run)
    out = run / "predictions" / "test"
    predict_scans(run, project.root, out, device="cpu")
    evaluate_predictions(out, project.root, Protocol())
    return [*_project_files(project), *_run_files(run), *_results(out)]


def _project_files(project: Project) -> Iterator[Subject]:
    def text(name: str, read: Callable[[], Any]) -> Subject:
        return Subject(name, project.root / name, lambda _: str(read()), text=True)

    yield text("cases.json", project.load_cases)
    yield text("splits.json", project.load_splits)
    yield text("plan.yaml", project.load_plan)
    yield text("origin.json", project.load_origin)
    yield text("fingerprint.json", lambda: read_fingerprint(project.fingerprint_file))
    store, plan = Store(project.store_root), project.load_plan()
    id_ = project.load_splits().labelled[0]

    def stored() -> str:
        store.check(project.load_splits(), plan)
        case = store.case(id_)
        return fingerprint(case, case.image(), case.label(), case.foreground(), store.hash())

    yield Subject("store/case.json", store.root / f"{id_}.json", lambda _: stored(), text=True)
    for part in ("image", "label", "foreground"):
        file = store.root / f"{id_}.{part}.npy"
        yield Subject(f"store/{part}.npy", file, lambda _: stored())


def _run_files(run: Path) -> Iterator[Subject]:
    folder = RunFolder(run)

    def text(name: str, read: Callable[[], Any]) -> Subject:
        return Subject(f"run/{name}", run / name, lambda _: str(read()), text=True)

    yield text("config.yaml", folder.config)
    yield text("plan.yaml", folder.plan)
    yield text("splits.json", folder.splits)
    yield text("facts.json", lambda: (folder.facts(), folder.watermark("last")))
    yield text("log.jsonl", lambda: read_log(folder.log_file))

    def weights(_: Path) -> str:
        state = Predictor.load(run, device="cpu").method.state_dict()
        return fingerprint(*(value.numpy() for value in state.values()))

    yield Subject("run/last.pt", folder.checkpoint("last"), weights)


def _results(out: Path) -> Iterator[Subject]:
    yield Subject(
        "predictions.json", out / "predictions.json", lambda _: str(merged_manifest(out)), text=True
    )
    yield Subject(
        "scores.json", out / "scores.json", lambda path: str(read_evaluation(path)), text=True
    )
