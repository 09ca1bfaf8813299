"""Which networks take windows of any size, and what memory these need, by their layers."""

from collections.abc import Sequence
from math import lcm

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tracoco.inference.windows import WindowNeeds
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


def window_needs(networks: Sequence[Network]) -> WindowNeeds:
    """What windows of networks that are asked one after the other take."""
    width = max(max(each.feature_channels[0], each.decoder_channels[-1]) for each in networks)
    classes = max(len(next(each.head.parameters())) for each in networks)
    return WindowNeeds(
        multiple_of=tuple(map(lcm, *(network.stride for network in networks))),
        voxel_bytes=FLOAT * (MAPS * width + LOGIT_MAPS * classes),
        sum_bytes=FLOAT * (classes + 1),
    )


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
