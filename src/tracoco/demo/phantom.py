"""Phantom scans: one organ to find among others that look alike and stand elsewhere each time.

Few labels are not enough here, for the reasons that the paper's introduction gives. The target
takes up more or less of a contrast agent in each scan, and a neighbour of its brightness does
too: brightness finds the target in the scans that were labelled, and misleads in the next one.
Only the wall tells the two apart. The organs usually stand in the same order, so a network can
learn the order instead of the organ, but now and then two of them change places. Contrast, bias
field and noise differ between scans.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Volume = NDArray[np.float32]
Place = tuple[float, float, float]

SPACING_MM = (1.5, 1.5, 2.0)
BODY = 0.26


@dataclass(frozen=True, slots=True)
class Organ:
    """An ellipsoid with a wall; lengths are in voxels, brightness before contrast and bias."""

    place: Place
    """Offset of the centre from the middle of the body."""
    radius: tuple[float, float, float]
    brightness: float
    wall: float
    """Brightness of the outermost voxels."""
    uptake: float = 0.0
    """How much of the scan's contrast agent shows in it."""


TARGET = Organ((0, 0, 0), (10.0, 8.5, 7.0), brightness=0.60, wall=0.40, uptake=1.0)
# The look-alike has the target's brightness and another wall; the rest differ in other ways.
NEIGHBOURS = (
    Organ((-15, 4, 2), (8.5, 8.0, 6.5), brightness=0.60, wall=0.84, uptake=1.0),
    Organ((14, 7, -2), (6.0, 8.0, 6.0), brightness=0.85, wall=0.85),
    Organ((2, -15, 1), (8.0, 5.0, 6.5), brightness=0.46, wall=0.46),
    Organ((4, 15, 4), (6.5, 5.5, 4.5), brightness=0.72, wall=0.72),
    Organ((-9, -13, -5), (5.0, 5.0, 4.0), brightness=0.12, wall=0.12),
)
SWAP_PROBABILITY = 0.5


@dataclass(frozen=True, slots=True)
class Phantom:
    """One scan and the truth about it."""

    image: Volume
    label: NDArray[np.uint8]


def make_phantom(seed: int, index: int) -> Phantom:
    """Scan `index` of the population `seed`: always the same scan for the same two numbers."""
    random = np.random.default_rng([seed, index])
    low, high = (50, 50, 34), (59, 59, 41)
    shape = tuple(int(n) for n in random.integers(low, high))
    grid = _warped_grid(shape, random)
    clean = np.full(shape, 0.05, dtype=np.float32)
    clean[_depth(grid, Organ((0, 0, 0), (26, 26, 19), BODY, BODY)) > 0] = BODY
    *neighbours, target = _arranged(random)
    for organ in neighbours:
        _paint(clean, grid, organ)
    valid = _paint(clean, grid, target)
    return Phantom(_scanned(clean, random), valid.astype(np.uint8))


def _arranged(random: np.random.Generator) -> list[Organ]:
    """The organs of one person, the target last: now and then two of them changed places."""
    organs = [*NEIGHBOURS, TARGET]
    places = [organ.place for organ in organs]
    if random.random() < SWAP_PROBABILITY:
        a, b = random.choice(len(places), size=2, replace=False)
        places[a], places[b] = places[b], places[a]
    agent = random.uniform(-0.08, 0.08)
    pairs = zip(organs, places, strict=True)
    return [_varied(organ, place, agent, random) for organ, place in pairs]


def _varied(organ: Organ, place: Place, agent: float, random: np.random.Generator) -> Organ:
    """The organ of one person: near `place`, with a size and brightness of its own."""
    shift = random.normal(0, 2.0, 3)
    scale = random.uniform(0.8, 1.2, 3)
    tone = random.uniform(-0.05, 0.05) + agent * organ.uptake
    x, y, z = np.add(place, shift)
    a, b, c = np.multiply(organ.radius, scale)
    return Organ((x, y, z), (a, b, c), organ.brightness + tone, organ.wall + tone)


def _warped_grid(shape: tuple[int, ...], random: np.random.Generator) -> Volume:
    """Voxel positions from the middle of the volume, bent so that no organ is exactly round."""
    axes = np.meshgrid(*(np.arange(n) - (n - 1) / 2 for n in shape), indexing="ij")
    bends = [_smooth_field(shape, random, sigma=6.0) * 1.8 for _ in shape]
    return np.stack([axis + bend for axis, bend in zip(axes, bends, strict=True)]).astype(
        np.float32
    )


def _depth(grid: Volume, organ: Organ) -> Volume:
    """How far inside the organ each voxel lies, in voxels, roughly; negative outside."""
    place = np.reshape(organ.place, (3, 1, 1, 1))
    radius = np.reshape(organ.radius, (3, 1, 1, 1))
    distance = np.sqrt((((grid - place) / radius) ** 2).sum(axis=0))
    depth: Volume = ((1 - distance) * min(organ.radius)).astype(np.float32)
    return depth


def _paint(clean: Volume, grid: Volume, organ: Organ) -> NDArray[np.bool_]:
    """Paint the organ and its wall, and return where it is."""
    depth = _depth(grid, organ)
    valid: NDArray[np.bool_] = depth > 0
    clean[valid] = organ.brightness
    clean[valid & (depth < 2.0)] = organ.wall
    return valid


def _scanned(clean: Volume, random: np.random.Generator) -> Volume:
    """What the scanner makes of it: contrast, blur, bias field and noise of one examination."""
    contrast = clean ** random.uniform(0.65, 1.6)
    blurred = ndimage.gaussian_filter(contrast, random.uniform(0.5, 0.8))
    bias = np.exp(0.16 * _smooth_field(clean.shape, random, sigma=14.0))
    noise = random.normal(0, random.uniform(0.02, 0.05), clean.shape)
    scale = random.uniform(300, 1500)
    image: Volume = (scale * np.clip(blurred * bias + noise, 0, None)).astype(np.float32)
    return image


def _smooth_field(shape: tuple[int, ...], random: np.random.Generator, *, sigma: float) -> Volume:
    """A smooth random field of mean 0 and standard deviation 1."""
    field = ndimage.gaussian_filter(random.normal(size=shape), sigma, mode="wrap")
    smooth: Volume = ((field - field.mean()) / field.std()).astype(np.float32)
    return smooth
