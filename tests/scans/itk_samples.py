"""Tiny NRRD and MetaImage files: by hand, so that nothing mends them, and by SimpleITK."""

from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK
from numpy.typing import NDArray

VOLUME = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
NRRD = {
    "type": "short",
    "dimension": "3",
    "space": "left-posterior-superior",
    "sizes": "2 3 4",
    "space directions": "(1.5,0,0) (0,2,0) (0,0,3)",
    "kinds": "domain domain domain",
    "endian": "little",
    "encoding": "raw",
    "space origin": "(10,20,30)",
}
META = {
    "ObjectType": "Image",
    "NDims": "3",
    "BinaryData": "True",
    "BinaryDataByteOrderMSB": "False",
    "TransformMatrix": "1 0 0 0 1 0 0 0 1",
    "Offset": "10 20 30",
    "ElementSpacing": "1.5 2 3",
    "DimSize": "2 3 4",
    "ElementType": "MET_SHORT",
    "ElementDataFile": "LOCAL",
}
LPS_AFFINE = np.array([[-1.5, 0, 0, -10], [0, -2, 0, -20], [0, 0, 3, 30], [0, 0, 0, 1]])
"""Of both headers above, in RAS."""
TURNED = np.array([[0, -1.6, 0.9, 5], [1.5, 0, 0, -6], [0, 1.2, 1.2, 7], [0, 0, 0, 1]])
"""Oblique, axes permuted: no matrix that is its own transpose."""


def write_nrrd(
    path: Path, changes: dict[str, str | None] | None = None, content: bytes | None = None
) -> Path:
    """Write the volume; a change of None leaves the field out."""
    fields = {name: value for name, value in (NRRD | (changes or {})).items() if value is not None}
    header = "".join(f"{name}: {value}\n" for name, value in fields.items())
    body = stored(VOLUME) if content is None else content
    path.write_bytes(b"NRRD0004\n# a comment: ignored\n" + header.encode() + b"\n" + body)
    return path


def write_meta(
    path: Path, changes: dict[str, str | None] | None = None, content: bytes | None = None
) -> Path:
    """Write the volume; a change of None leaves the field out. The name of the data comes last."""
    fields = {name: value for name, value in (META | (changes or {})).items() if value is not None}
    fields["ElementDataFile"] = fields.pop("ElementDataFile")
    header = "".join(f"{name} = {value}\n" for name, value in fields.items())
    path.write_bytes(header.encode() + (stored(VOLUME) if content is None else content))
    return path


def stored(array: NDArray[Any]) -> bytes:
    """The bytes of an array whose first axis runs fastest."""
    return array.tobytes("F")


def write_with_simpleitk(path: Path, affine: NDArray[Any]) -> None:
    """Write the volume with an affine in RAS."""
    image = SimpleITK.GetImageFromArray(VOLUME.transpose())
    lps = np.diag([-1, -1, 1, 1]) @ affine
    sides = np.linalg.norm(lps[:3, :3], axis=0)
    image.SetSpacing(sides.tolist())
    image.SetDirection((lps[:3, :3] / sides).ravel().tolist())
    image.SetOrigin(lps[:3, 3].tolist())
    SimpleITK.WriteImage(image, str(path))


def affine_of(path: Path) -> NDArray[Any]:
    """Where SimpleITK puts a file, in RAS."""
    image = SimpleITK.ReadImage(str(path))
    affine = np.eye(4)
    affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    return np.diag([-1, -1, 1, 1]) @ affine
