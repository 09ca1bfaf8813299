"""Draw the pictures of the documentation from phantom scans: python -m scripts.site.pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

import tracoco as tc
from tracoco.demo.phantom import make_phantom
from tracoco.inference.windows import window_weight

OUT = Path(__file__).parents[2] / "docs" / "images"
FIRST, SECOND, LABEL = "#26a69a", "#ffb74d", "#e53935"
CROP = (32, 32, 24)
STRIDE = (16, 16)
SEED = 4


def show(axes: Any, image: NDArray[Any], title: str = "", like: Any = None) -> None:
    """One slice in grey; in the greys of another image, if that is given."""
    low, high = np.percentile(image if like is None else like, (1, 99.5))
    axes.imshow(image.T, cmap="gray", origin="lower", vmin=low, vmax=high)
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def outline(axes: Any, label: NDArray[Any]) -> None:
    """The border of a structure."""
    axes.contour(label.T, levels=[0.5], colors=[LABEL], linewidths=1.6)


def box(axes: Any, start: Sequence[int], size: Sequence[int], colour: Any, **more: Any) -> None:
    """The border of a crop or a window."""
    corner = (start[0] - 0.5, start[1] - 0.5)
    style: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": 2.2} | more
    axes.add_patch(Rectangle(corner, size[0], size[1], **style))


def few_labels() -> None:
    """Two scans with a label, and many without."""
    figure, rows = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
    for index, axes in enumerate(rows.flat):
        phantom = make_phantom(SEED, index)
        middle = phantom.image.shape[2] // 2
        show(axes, phantom.image[..., middle], "labelled" if index < 2 else "no label")
        if index < 2:
            outline(axes, phantom.label[..., middle])
    save(figure, "few-labels.png")


def crop_pair() -> None:
    """Two overlapping crops of one scan, and the same voxels in both."""
    phantom = make_phantom(SEED, 1)
    volume = torch.from_numpy(phantom.image)[None]
    generator = torch.Generator().manual_seed(5)
    first, second, (here, there) = tc.crop_pair(volume, CROP, generator)
    slice_ = (here.start[2] + here.stop[2]) // 2
    starts = [place_of(volume[0], crop[0]) for crop in (first, second)]
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.5), layout="constrained")
    whole = phantom.image[..., starts[0][2] + slice_]
    show(axes[0], whole, "a scan without a label")
    for start, colour in zip(starts, (FIRST, SECOND), strict=True):
        box(axes[0], start, CROP, colour)
    for axis, crop, inside, colour, title in (
        (axes[1], first, here, FIRST, "first crop"),
        (axes[2], second, there, SECOND, "second crop"),
    ):
        depth = inside.start[2] + slice_ - here.start[2]
        show(axis, crop[0, ..., depth].numpy(), title, whole)
        size = [stop - start for start, stop in zip(inside.start, inside.stop, strict=True)]
        box(axis, inside.start, size, "white", linestyle="--")
        for side in axis.spines.values():
            side.set(edgecolor=colour, linewidth=3)
    axes[1].set_xlabel("dashed: the overlap, the same voxels in both", fontsize=9)
    save(figure, "crop-pair.png")


def place_of(volume: torch.Tensor, crop: torch.Tensor) -> tuple[int, ...]:
    """Where a crop was cut out of a volume without equal parts."""
    corner = (volume == crop[0, 0, 0]).nonzero()
    for start in corner.tolist():
        parts = tuple(slice(n, n + size) for n, size in zip(start, crop.shape, strict=True))
        if torch.equal(volume[parts], crop):
            return tuple(start)
    raise ValueError("the crop is not part of the volume")


def windows() -> None:
    """How a scan is covered with overlapping windows during prediction."""
    phantom = make_phantom(SEED, 2)
    middle = phantom.image.shape[2] // 2
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
    show(axes[0], phantom.image[..., middle], "windows overlap by half")
    starts = [
        sorted({*range(0, length - CROP[0], STRIDE[0]), length - CROP[0]})
        for length in phantom.image.shape[:2]
    ]
    colours = mpl.colormaps["viridis"]
    places = [(x, y) for x in starts[0] for y in starts[1]]
    for index, place in enumerate(places):
        box(axes[0], place, CROP, colours(index / len(places)), linewidth=1.4)
    axes[1].imshow(window_weight(CROP, "gaussian")[..., CROP[2] // 2], cmap="viridis")
    axes[1].set(title="a window counts most in its middle", xticks=[], yticks=[])
    axes[1].title.set_fontsize(10)
    save(figure, "windows.png")


def save(figure: Any, name: str) -> None:
    """Write a picture that is small and the same at every run."""
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Draw all pictures."""
    mpl.use("Agg")
    few_labels()
    crop_pair()
    windows()


if __name__ == "__main__":
    main()
