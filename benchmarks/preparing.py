"""Fifty scans into the store, against SimpleITK one after the other."""

from pathlib import Path
from shutil import rmtree

import numpy as np
import SimpleITK
import torch

from benchmarks.agreement import check_close
from benchmarks.alternatives import prepare_with_simpleitk
from benchmarks.material import draw_organ, draw_scan, write_nifti
from benchmarks.row import Row, faster
from benchmarks.timing import best_of
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.project.prepare import prepare

SHAPE = (192, 192, 96)
COUNT = 50
SPACING = (1.25, 1.25, 2.5)
"""Of the scans; they are resampled to the next."""
TARGET = (1.4, 1.4, 2.0)


def rows(work: Path) -> list[Row]:
    """One row; both sides read the same files and end with the same arrays on the disk."""
    images = _write_scans(work / "scans")
    project = init_project(work / "scans", work / "project")
    changes = {"spacing_mm": TARGET, "normalisation": "range"}
    plan = project.load_plan().model_copy(update=changes)
    write_plan(project.plan_file, plan)
    threads = torch.get_num_threads()
    SimpleITK.ProcessObject.SetGlobalDefaultNumberOfThreads(threads)
    theirs = work / "simpleitk"

    def ours() -> None:
        rmtree(project.store_root, ignore_errors=True)
        prepare(project, workers=None)

    best = best_of(2, ours, lambda: prepare_with_simpleitk(images, theirs, plan))
    _check_same(project, theirs)
    return [
        faster(
            f"prepare {COUNT} scans of {' x '.join(map(str, SHAPE))}",
            "SimpleITK in a loop: read, scale, resample, write",
            (best[0], best[1]),
            1.7,
            f"int16 .nii.gz to float32 arrays, linear interpolation, values equal to 1e-5. Ours "
            f"starts its processes anew, hashes the files, resamples one label, and waits until "
            f"all is on the disk; SimpleITK has {threads} threads.",
        )
    ]


def _write_scans(root: Path) -> list[Path]:
    images = []
    for index in range(COUNT):
        images.append(root / "images" / f"case{index:03d}.nii.gz")
        write_nifti(images[-1], draw_scan(SHAPE, index), SPACING)
    label = draw_organ(SHAPE, seed=0).astype(np.uint8)
    write_nifti(root / "labels" / images[0].name, label, SPACING)
    return images


def _check_same(project: Project, theirs: Path) -> None:
    for path in sorted(theirs.glob("*.npy")):
        ours = np.load(project.store_root / f"{path.stem}.image.npy", mmap_mode="r")
        check_close(f"prepared {path.stem}", ours, np.load(path), 1e-5)
