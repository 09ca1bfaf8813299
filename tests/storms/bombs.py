"""Small files that declare or unpack to what fits no memory: refused, within a memory limit."""

import io
import resource
import zlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
from storms.children import launch
from storms.scenarios import Stage
from storms.tally import Tally

ZEROS = bytes(2**20)
UNPACKED_MB = 700
MEMORY = 600 * 2**20
"""Bytes beside what the process has already."""
SECONDS = 20.0
HEADER = "NDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nCompressedData = True\n"


def write_bombs(folder: Path) -> Iterator[Path]:
    """One file of each kind."""
    folder.mkdir()
    packed = _packed(zlib.compressobj(9), b"")
    small = nib.Nifti1Image(np.zeros((2, 2, 2), np.uint8), np.eye(4)).to_bytes()
    freesurfer = io.BytesIO()
    nib.MGHImage(np.zeros((2, 2, 2), np.uint8), np.eye(4)).to_file_map(
        {"image": nib.FileHolder(fileobj=freesurfer)}
    )
    contents = {
        "a.nii.gz": _packed(zlib.compressobj(9, wbits=31), small),
        "a.mgz": _packed(zlib.compressobj(9, wbits=31), freesurfer.getvalue()),
        "a.mha": (HEADER + "ElementDataFile = LOCAL\n").encode() + packed,
        "a.nrrd": b"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: gzip\n\n"
        + _packed(zlib.compressobj(9, wbits=31), b""),
        "skip.nrrd": b"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n"
        b"line skip: 9999999999\n\n" + bytes(8),
        "a.npy": _declared(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield folder / name
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("image", (20000,) * 3, "f4", chunks=(100,) * 3, compression="gzip")
    yield folder / "a.h5"


def _packed(packer: "zlib._Compress", first: bytes) -> bytes:
    parts = [packer.compress(first), *(packer.compress(ZEROS) for _ in range(UNPACKED_MB))]
    return b"".join([*parts, packer.flush()])


def _declared() -> bytes:
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (20000, 20000, 20000)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def explode(stage: Stage, folder: Path, tally: Tally) -> None:
    """Predict each bomb as if it was a scan."""
    run_folder = str(stage.work / "project" / "runs" / "a")
    for path in write_bombs(folder):
        words = ("predict", run_folder, str(path), str(stage.work / "labels"), "--device", "cpu")
        ended = launch(words, stage.log, _limit).wait(SECONDS)
        if ended.hung or ended.traceback:
            outcome = "hang" if ended.hung else "traceback"
            tally.add("bombs", outcome, f"{path.name}: {ended.text[-300:]}")
        elif ended.code != 2 or path.name not in ended.text:
            tally.add("bombs", "silently wrong", f"{path.name}: {ended.code} {ended.text[-300:]}")
        else:
            tally.add("bombs", "survived")


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
