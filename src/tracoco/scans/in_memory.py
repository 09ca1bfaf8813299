"""Images that other libraries hold in memory, as scans: those of nibabel and of SimpleITK."""

from pathlib import Path
from typing import Any

import numpy as np

from tracoco.errors import UserError
from tracoco.scans.nifti import IMAGES, MILLIMETRES
from tracoco.scans.scan import Affine, Grid, Scan
from tracoco.scans.stored import Stored, as_image, describe, split_channels

LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""ITK's x points to the left and its y to the back; ours to the right and to the front."""


def as_scan(image: Any) -> Scan:
    """A nibabel or SimpleITK image as a scan, float32 [C, X, Y, Z] in canonical order.

    Libraries are told apart by where the class of the image comes from, so that neither is
    imported for the other.
    """
    libraries = {base.__module__.split(".")[0] for base in type(image).__mro__}
    if "nibabel" in libraries:
        return _from_nibabel(image)
    if "SimpleITK" in libraries:
        return _from_simpleitk(image)
    raise UserError(
        f"a {type(image).__name__} is no scan; give a path, an array with its spacing_mm, or an "
        "image of nibabel or SimpleITK"
    )


def _from_nibabel(image: Any) -> Scan:
    source = Path(image.get_filename() or "nibabel image")
    shape, channels = split_channels(image.shape, source)
    affine = np.array(image.affine, dtype=np.float64)
    header, has_geometry = b"", True
    if type(image.header) in IMAGES:
        header = image.header.binaryblock
        affine[:3] *= MILLIMETRES[image.header.get_xyzt_units()[0]]
        has_geometry = bool(image.header["qform_code"] > 0 or image.header["sform_code"] > 0)
    voxels = np.asanyarray(image.dataobj).reshape(*shape, channels)
    about = describe(Grid(shape, affine, header, has_geometry), channels, source)
    return as_image(Stored(about, np.moveaxis(voxels, -1, 0)))


def _from_simpleitk(image: Any) -> Scan:
    import SimpleITK  # noqa: PLC0415 - it is there, since the image is

    source = Path("SimpleITK image")
    if image.GetDimension() != 3:
        raise UserError(f"the SimpleITK image has {image.GetDimension()} dimensions, not 3")
    voxels = SimpleITK.GetArrayFromImage(image)  # [Z, Y, X] or [Z, Y, X, C]
    channels = image.GetNumberOfComponentsPerPixel()
    voxels = voxels.reshape(*voxels.shape[:3], channels).transpose(3, 2, 1, 0)
    x, y, z = image.GetSize()
    about = describe(Grid((x, y, z), _itk_affine(image)), channels, source)
    return as_image(Stored(about, voxels))


def _itk_affine(image: Any) -> Affine:
    direction = np.array(image.GetDirection(), dtype=np.float64).reshape(3, 3)
    affine = np.eye(4)
    affine[:3, :3] = direction * np.array(image.GetSpacing(), dtype=np.float64)
    affine[:3, 3] = image.GetOrigin()
    return LPS_TO_RAS @ affine
