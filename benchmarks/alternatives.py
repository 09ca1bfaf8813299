"""What people use instead, written out plainly: the same result by the usual way.

Each is meant to be one that its authors would agree with. Where there was a choice, the faster
way was taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import SimpleITK
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from tracoco.data.augment import Appearance, Orientation, draw_brightness, draw_orientation
from tracoco.data.batch import Batch
from tracoco.data.crop import Crop, draw_first, draw_second, start_ranges
from tracoco.data.crop_pair import CropPair, CropRule
from tracoco.data.source import BatchSource, Purpose, Stream, cases_at, generator
from tracoco.geometry import Box
from tracoco.losses.translation import Overlap
from tracoco.methods.method import uniform_noise
from tracoco.methods.tracoco_as_released import (
    binary_crc,
    clamped_negative_entropy,
    draw_released_mix,
    halved_supervised_loss,
    spatial_divergence,
)
from tracoco.project.plan import Plan
from tracoco.project.store import Store, StoredCase

GZIP_LEVEL = 4
"""h5py's own choice, and that of the field's files."""
NOISE = 0.2


@dataclass(frozen=True)
class WholeVolumes(BatchSource):
    """Our batches, made as the field's loaders make them: all of a volume is read and changed."""

    def _pairs(self, stream: Stream, batch: int, step: int) -> Iterator[CropPair]:
        cases = self.labelled if stream is Stream.LABELLED else self.unlabelled
        chosen = cases_at(step, len(cases), batch, seed=self.seed, stream=stream)
        for slot in range(batch):
            random = generator(self.seed, stream, Purpose.CROP, step, slot)
            case = self.store.case(cases[chosen[slot]])
            yield whole_volume_pair(case, self.rule, random, labelled=stream is Stream.LABELLED)


def whole_volume_pair(
    case: StoredCase, rule: CropRule, random: Generator, *, labelled: bool
) -> CropPair:
    """Read a gzip-HDF5 file, turn and flip, scale to [0, 1], brighten, crop twice.

    The order is that of the releases. The draws are ours, so that the crops are the same too; the
    volume is larger than the crop along every axis, so nothing is padded.
    """
    orientation = draw_orientation(
        random, rule.plane, flip_axes=rule.flip_axes, turns=rule.turns and rule.config.turns
    )
    factor = draw_brightness(random, rule.config.brightness)
    before = orientation.size_before(rule.size)
    ranges = start_ranges(case.shape, before)
    first = draw_first(case, before, ranges, random, rule.config.foreground if labelled else 0.0)
    second = draw_second(first, ranges, random, rule.config.overlap, orientation.reversed_before)
    with h5py.File(hdf5_file(case.root, case.id)) as file:
        image = orientation.apply(file["image"][:]).copy()
        label = orientation.apply(file["label"][:]).copy() if labelled else None
    image = (image - image.min()) / (image.max() - image.min())
    image = np.clip(image * np.float32(factor), 0, 1)

    def crop(box: Box) -> Crop:
        place = Box(orientation.place(box, case.shape), rule.size)
        return Crop(
            image,
            place,
            Orientation(rule.plane, exchanged=False, reversed_axes=()),
            Appearance(1.0),
        )

    here = crop(first)
    cut = None if label is None else label[Box(here.start, rule.size).slices]
    return CropPair(case.id, here, crop(second), cut)


def write_hdf5(store: Store) -> None:
    """The cases of a store once more, as gzip-HDF5 files beside it."""
    for id_ in store.ids:
        with h5py.File(hdf5_file(store.root, id_), "w") as file:
            for name, array in _arrays(store.case(id_)).items():
                file.create_dataset(
                    name, data=array, compression="gzip", compression_opts=GZIP_LEVEL
                )


def _arrays(case: StoredCase) -> dict[str, NDArray[Any]]:
    image = {"image": case.image()}
    return image | {"label": case.label()} if case.class_voxels else image


def hdf5_file(root: Path, id_: str) -> Path:
    """Where a case is as HDF5."""
    return root / f"{id_}.h5"


def released_step(
    networks: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer], batch: Batch
) -> None:
    """One step of the authors' release: for each network 12 crops with gradient, 4 without.

    Both views of all crops, then a third, noisy and for the second network mixed pass of all crops
    that learns from a clean pass of all crops. Only the unlabelled half of the last two is used.
    """
    pairs, noisy, clean, mix = released_passes(networks, batch)
    labelled, unlabelled = slice(batch.labelled_count), slice(batch.labelled_count, None)
    valid, overlap = batch.first.valid, Overlap(batch.overlaps, batch.first.valid)
    loss = torch.zeros(())
    for index, (first, second) in enumerate(pairs):
        loss = loss + halved_supervised_loss(first[labelled], batch.labels, valid[labelled])
        loss = loss + 0.3 * spatial_divergence(first, second, overlap)
        loss = loss + 0.1 * clamped_negative_entropy(first, second, overlap)
        peer = clean[1 - index] if index == 0 else mix(clean[0])
        probability = peer[unlabelled].softmax(dim=1)
        voxels = valid if index == 0 else mix(valid)
        loss = loss + binary_crc(
            noisy[index][unlabelled], probability, voxels[unlabelled], gamma=0.65, beta=0.1
        )
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()


def released_passes(
    networks: Sequence[nn.Module], batch: Batch
) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor], list[Tensor], Any]:
    """What the release sends through its networks: both views, the third pass, the clean pass."""
    crops = batch.first.values
    pairs = [
        (
            network(uniform_noise(crops, NOISE)),
            network(uniform_noise(batch.second.values, NOISE)),
        )
        for network in networks
    ]
    with torch.no_grad():
        clean = [network(crops) for network in networks]
    mix = draw_released_mix(len(crops), crops.shape[2:])
    inputs = (crops, mix(crops))
    noisy = [
        network(uniform_noise(values, NOISE))
        for network, values in zip(networks, inputs, strict=True)
    ]
    return pairs, noisy, clean, mix


def prepare_with_simpleitk(images: Sequence[Path], out: Path, plan: Plan) -> None:
    """Scans to float32 arrays, one after the other: read, scale, resample, write."""
    out.mkdir(parents=True, exist_ok=True)
    for path in images:
        image = SimpleITK.ReadImage(str(path), SimpleITK.sitkFloat32)
        array = SimpleITK.GetArrayFromImage(image)
        low, high = np.percentile(array, [plan.low_percentile, plan.high_percentile])
        scaled = SimpleITK.GetImageFromArray(((array - low) / (high - low)).clip(0, 1))
        scaled.CopyInformation(image)
        resampled = _resampled(scaled, plan)
        voxels = SimpleITK.GetArrayViewFromImage(resampled).transpose()[None]
        np.save(out / f"{path.name.removesuffix('.nii.gz')}.npy", np.ascontiguousarray(voxels))


def _resampled(image: SimpleITK.Image, plan: Plan) -> SimpleITK.Image:
    """Linear interpolation onto voxels of the plan's size that cover the same space."""
    x, y, z = image.GetSize()
    a, b, c = image.GetSpacing()
    size = plan.stored_shape((x, y, z), (a, b, c))
    spacing = [s * n / m for s, n, m in zip((a, b, c), (x, y, z), size, strict=True)]
    corner = [(new / old - 1) / 2 for new, old in zip(spacing, (a, b, c), strict=True)]
    origin = image.TransformContinuousIndexToPhysicalPoint(corner)
    return SimpleITK.Resample(
        image,
        size,
        SimpleITK.Transform(),
        SimpleITK.sitkLinear,
        origin,
        spacing,
        image.GetDirection(),
        0.0,
        SimpleITK.sitkFloat32,
    )
