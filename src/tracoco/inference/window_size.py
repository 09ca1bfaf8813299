"""How large a window may be: by the layers of the networks, and by memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm, prod

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tracoco.geometry import Size, piece_axis
from tracoco.methods.method import Method
from tracoco.networks.light_unet import Double, Pointwise
from tracoco.networks.network import Network

LOCAL = (
    *(nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.MaxPool2d, nn.MaxPool3d),
    *(
        nn.Dropout,
        nn.Dropout2d,
        nn.Dropout3d,
        nn.Identity,
        nn.ReLU,
        nn.LeakyReLU,
        Pointwise,
        Double,
    ),
)
"""Layers whose output for a voxel depends on voxels near to it, and not on the window's size."""
MAPS = 6
"""Maps of the finest level that a pass holds at once: what a convolution takes and gives, a copy of
both, a skip, and about as much as one more at all coarser levels."""
LOGIT_MAPS = 4
"""Maps of the classes that are held at once: logits, probabilities, and copies of both."""
FLOAT = 4
"""Bytes of a value."""


def largest_window(
    networks: Sequence[Network], shape: Sequence[int], crop: Size, shared: Size, memory: float
) -> tuple[Size, int]:
    """The largest window for a scan within so many bytes, and how many may go through at once.

    Where one window for the whole scan would take too much memory, the scan is split evenly, along
    one axis after the other, and never into windows shorter than the crop.

    Args:
        networks: that windows go through, one after the other.
        shape: of the scan.
        crop: the smallest window.
        shared: voxels that neighbouring windows have in common along each axis.
        memory: in bytes.
    """
    stride = tuple(map(lcm, *(network.stride for network in networks)))
    flat = len(crop) - len(stride)  # the axis of the slices in 2D projects
    lengths = [[1]] * flat + [
        list(_lengths(*axis))
        for axis in zip(shape[flat:], crop[flat:], stride, shared[flat:], strict=True)
    ]
    demand = Demand.of(networks, shape)
    window = _largest(lengths, demand, memory)
    return window, demand.windows_within(window, memory)


@dataclass(frozen=True, slots=True)
class Demand:
    """An estimate of the memory that windows of any size take for one scan."""

    shape: Size
    voxel_bytes: int
    """Of a pass, for each voxel of a window."""
    sum_bytes: int
    """Of the sums over windows, for each voxel of the band that they are kept for."""

    @classmethod
    def of(cls, networks: Sequence[Network], shape: Sequence[int]) -> "Demand":
        """For networks that are asked one after the other."""
        width = max(max(each.feature_channels[0], each.decoder_channels[-1]) for each in networks)
        classes = max(len(next(each.head.parameters())) for each in networks)
        voxel_bytes = FLOAT * (MAPS * width + LOGIT_MAPS * classes)
        return cls(tuple(shape), voxel_bytes, FLOAT * (classes + 1))

    def bytes_for(self, window: Size) -> int:
        """Of one window that goes through the network, and of the sums."""
        return prod(window) * self.voxel_bytes + self._of_sums(window)

    def windows_within(self, window: Size, most: float) -> int:
        """How many windows may go through at once."""
        return int((most - self._of_sums(window)) // (prod(window) * self.voxel_bytes))

    def _of_sums(self, window: Size) -> int:
        band = list(map(max, self.shape, window))
        axis = piece_axis(self.shape, window)
        band[axis] = window[axis]
        return prod(band) * self.sum_bytes


def networks_of_any_size(method: Method) -> list[Network]:
    """The networks of a method, if windows of any size get the same output from all of them.

    Networks that are not ours do not say which sizes they can take.
    """
    networks = [method.inference_network(), *method.trained_networks()]
    ours = [[part for part in each.modules() if isinstance(part, Network)] for each in networks]
    leaves = [part for each in networks for part in each.modules() if not list(part.children())]
    able = all(ours) and all(_is_local(part) for part in leaves)
    return [part for each in ours for part in each] if able else []


def _is_local(layer: nn.Module) -> bool:
    """Whether the output of a layer for a voxel is the same in windows of any size."""
    if isinstance(layer, _BatchNorm):
        return layer.running_mean is not None
    if isinstance(layer, nn.Upsample):  # aligned corners stretch a map by its length
        return not layer.align_corners
    return isinstance(layer, LOCAL)


def _lengths(length: int, crop: int, stride: int, shared: int) -> Iterator[int]:
    """Lengths of windows that cover an axis in 1, 2, ... parts, down to the crop's."""
    last, parts = 0, 1
    while last != crop:
        even = -(-(length + (parts - 1) * shared) // parts)
        found = max(crop, -(-even // stride) * stride)
        if found != last:
            yield found
        last, parts = found, parts + 1


def _largest(lengths: list[list[int]], demand: Demand, most: float) -> Size:
    """Take the largest window within so many bytes, or the smallest; longest lengths come first."""
    places = [0] * len(lengths)

    def window(places: Sequence[int]) -> Size:
        return tuple(axis[place] for axis, place in zip(lengths, places, strict=True))

    while demand.bytes_for(window(places)) > most:
        splits = [
            [*places[:axis], places[axis] + 1, *places[axis + 1 :]]
            for axis in range(len(lengths))
            if places[axis] + 1 < len(lengths[axis])
        ]
        if not splits:
            break
        places = min(splits, key=lambda each: demand.bytes_for(window(each)))
    return window(places)
