"""What is measured on: scans like those of people, drawn from a seed; and crops without files."""

from pathlib import Path

import nibabel as nib
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from tracoco.config import Config, NetworkConfig
from tracoco.data.batch import Batch, Crops
from tracoco.geometry import Size
from tracoco.methods.method import Method
from tracoco.project.plan import Plan
from tracoco.runs.build import run_method
from tracoco.settings import MethodChoice

Mask = NDArray[np.bool_]
Spacing = tuple[float, float, float]


def draw_scan(shape: Size, seed: int) -> NDArray[np.int16]:
    """Smooth tissue with the noise of a scanner, 0 to 255 as in many MR scans."""
    random = np.random.default_rng(seed)
    smooth = gaussian_filter(random.standard_normal(shape, dtype=np.float32), 4)
    values = 110 + 30 * smooth / smooth.std() + 6 * random.standard_normal(shape, dtype=np.float32)
    scan: NDArray[np.int16] = values.clip(0, 255).astype(np.int16)
    return scan


def draw_organ(shape: Size, seed: int, size: float = 0.3) -> Mask:
    """A lumpy ellipsoid around the middle; `size` is its radius as a fraction of each axis."""
    random = np.random.default_rng(seed)
    axes = (np.linspace(-1, 1, n) / (2 * size) for n in shape)
    radius = sum(axis**2 for axis in np.meshgrid(*axes, indexing="ij", sparse=True))
    lumps = gaussian_filter(random.standard_normal(shape, dtype=np.float32), 8)
    organ: Mask = radius + 0.2 * lumps / lumps.std() < 1
    return organ


def write_nifti(path: Path, array: NDArray[np.generic], spacing_mm: Spacing = (1, 1, 1)) -> None:
    """Write an array as a scan."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, np.diag([*spacing_mm, 1.0])), path)


def write_data_set(
    root: Path, shape: Size, *, labelled: int, unlabelled: int, suffix: str = ".nii.gz"
) -> Path:
    """A folder with images/ and labels/, of spacing 1 mm."""
    for index in range(labelled + unlabelled):
        name = f"case{index:03d}{suffix}"
        write_nifti(root / "images" / name, draw_scan(shape, index))
        if index < labelled:
            write_nifti(root / "labels" / name, draw_organ(shape, index).astype(np.uint8))
    return root


def draw_batch(size: Size, labelled: int = 2, unlabelled: int = 2) -> Batch:
    """Noise, in pairs of crops that overlap by three quarters along each axis."""
    random = torch.Generator().manual_seed(0)
    count = labelled + unlabelled

    def crops(place: tuple[int, ...]) -> Crops:
        values = torch.rand(count, 1, *size, generator=random)
        return Crops(values, torch.ones(count, *size, dtype=torch.bool), (place,) * count)

    first, second = crops((0,) * len(size)), crops(tuple(n // 4 for n in size))
    labels = torch.randint(2, (labelled, *size), generator=random)
    return Batch(first, second, labels, tuple(map(str, range(count))))


def plain_plan(crop: Size) -> Plan:
    """A plan for volumes of one channel and two classes, without resampling."""
    values = {
        "dimensions": 3,
        "channels": 1,
        "label_values": (0, 1),
        "class_names": ("background", "organ"),
        "slice_axis": None,
        "spacing_mm": (1.0, 1.0, 1.0),
        "crop": crop,
    }
    return Plan.model_validate(values)


def untrained(network: str, filters: int, crop: Size) -> Method:
    """A network whose batch normalisation has seen some crops."""
    torch.manual_seed(0)
    config = Config(
        method=MethodChoice(name="supervised"), network=NetworkConfig(name=network, filters=filters)
    )
    method = run_method(config, plain_plan(crop))
    with torch.no_grad():
        for _ in range(3):
            method.inference_network()(torch.rand(2, 1, 32, 32, 32))
    return method
