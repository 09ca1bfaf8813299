"""Weights that other repositories have released, as weights of our networks.

The networks are the same, only their layers have other names. A table for each way of naming says
which layer is which; a tensor that is missing, left over or of another shape is an error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.networks.unet import LEVELS
from tracoco.networks.vnet import DECODER_DEPTHS, ENCODER_DEPTHS

Intensities = Literal["min-max", "stored"]
Tensors = Mapping[str, Tensor]

COUNTER = "num_batches_tracked"
"""Of batch normalisation. Nothing at test time depends on it, and old files do not have it."""
SHOWN = 4
"""Names that a message lists before it counts the rest."""
WIDEST = 256
"""Filters of the finest level; a network that claims more would not fit in memory."""


@dataclass(frozen=True, slots=True)
class Naming:
    """One way of naming the layers of a network."""

    about: str
    """The network and who names it so."""
    network: str
    """Our name of it."""
    dimensions: int
    layers: Mapping[str, str]
    """Our name of each layer, by its released name."""
    head: str
    """The released name of the layer that gives the logits."""
    signs: tuple[str, ...]
    """Layers that tell this naming from the others."""
    unused: tuple[str, ...] = ()
    """Names begin so of layers that a prediction does not need."""
    sigmoid: bool = False
    """Whether the head has one channel, whose sigmoid is the probability of the foreground."""
    intensities: Intensities = "min-max"
    """What its repository does with the intensities of the field's files before it predicts."""
    namesake: str = ""
    """A repository with the same names that keeps intensities as they are stored."""


@dataclass(frozen=True, slots=True)
class Released:
    """The tensors of a released network, and what they say of it."""

    naming: Naming
    tensors: Tensors
    source: str
    """The file, for messages."""

    @property
    def filters(self) -> int:
        """Channels of the finest level."""
        return self._weight(self.naming.signs[0]).shape[0]

    @property
    def channels(self) -> int:
        """Channels of a scan."""
        return self._weight(self.naming.signs[0]).shape[1]

    @property
    def classes(self) -> int:
        """Classes, the background among them."""
        channels = self._weight(self.naming.head).shape[0]
        return channels + 1 if self.naming.sigmoid else channels

    @property
    def unused(self) -> list[str]:
        """Tensors that a prediction does not need."""
        return [name for name in self.tensors if name.startswith(self.naming.unused)]

    def _weight(self, layer: str) -> Tensor:
        weight = self.tensors.get(f"{layer}.weight")
        if weight is None or weight.dim() != self.naming.dimensions + 2:
            raise UserError(
                f"{self.source}: {layer}.weight of {self.naming.about} is missing or has the wrong "
                "number of dimensions; use the file as it was released"
            )
        return weight


def recognise(tensors: Tensors, source: str) -> Released:
    """Tell by the names of its tensors which network a file holds."""
    parallel = all(name.startswith("module.") for name in tensors)
    plain = (
        {name.removeprefix("module."): t for name, t in tensors.items()} if parallel else tensors
    )
    for naming in NAMINGS:
        if all(f"{layer}.weight" in plain for layer in naming.signs):
            return Released(naming, plain, source)
    known = "; ".join(naming.about for naming in NAMINGS)
    raise UserError(
        f"{source} holds no network that is known here; its tensors are {_some(plain)}. "
        f"Known are: {known}"
    )


def convert(released: Released, network: nn.Module) -> dict[str, Tensor]:
    """The state of our network; an error if the released tensors are not exactly its own."""
    wanted = network.state_dict()
    theirs = {ours: name for name, ours in released.naming.layers.items()}
    sources = {name: _released_name(name, theirs) for name in wanted}
    found = _tensors(released)
    missing = [
        source
        for name, source in sources.items()
        if source not in found and not name.endswith(COUNTER)
    ]
    left_over = sorted(found.keys() - set(sources.values()) - set(released.unused))
    shapes = [
        f"{source} {list(found[source].shape)} in place of {list(wanted[name].shape)}"
        for name, source in sources.items()
        if source in found and found[source].shape != wanted[name].shape
    ]
    problems = {"missing": missing, "left over": left_over, "of another shape": shapes}
    misfits = [f"{len(names)} {kind} ({_some(names)})" for kind, names in problems.items() if names]
    if misfits:
        raise UserError(
            f"{released.source} does not fit {released.naming.about}: tensors "
            f"{', '.join(misfits)}. Variants of the network with other layers cannot be imported"
        )
    state = {
        name: found.get(source, wanted[name]).detach().to(wanted[name].dtype).clone()
        for name, source in sources.items()
    }
    broken = [sources[name] for name, tensor in state.items() if not tensor.isfinite().all()]
    if broken:
        raise UserError(
            f"{released.source} has values that are not finite in {_some(broken)}; the file is "
            "damaged, or its training diverged"
        )
    return state


def _released_name(name: str, theirs: Mapping[str, str]) -> str:
    layer, _, tensor = name.rpartition(".")
    return f"{theirs[layer]}.{tensor}"


def _tensors(released: Released) -> dict[str, Tensor]:
    """Those of the file; a head with a sigmoid as one whose softmax has the same probabilities."""
    found = dict(released.tensors)
    if released.naming.sigmoid:
        if released.classes != 2:
            raise UserError(
                f"{released.source} has {released.classes - 1} structures, each with a sigmoid of "
                "its own; only networks for a single one can be imported"
            )
        # softmax([0, z]) = [1 - sigmoid(z), sigmoid(z)]
        for tensor in ("weight", "bias"):
            name = f"{released.naming.head}.{tensor}"
            if name in found:
                found[name] = torch.cat([torch.zeros_like(found[name]), found[name]])
    return found


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def _vnet(encoder: str = "", decoder: str = "", head: str = "out_conv") -> dict[str, str]:
    """UA-MT's names: `block_one` to `block_nine`, `_dw` below the first four, `_up` below five."""
    down, up = ("one", "two", "three", "four", "five"), ("six", "seven", "eight", "nine")
    layers: dict[str, str] = {}
    for level, (name, depth) in enumerate(zip(down, ENCODER_DEPTHS, strict=True)):
        block = f"encoder.stages.{level}{'.1' if level else ''}"
        if level:
            halve = f"{encoder}block_{down[level - 1]}_dw.conv"
            layers |= _activated(halve, f"encoder.stages.{level}")
        layers |= _activated(f"{encoder}block_{name}.conv", block, depth)
    for level, (name, depth) in enumerate(zip(up, DECODER_DEPTHS, strict=True)):
        below = (down[-1], *up)[level]
        double = f"{decoder}block_{below}_up.conv"
        layers |= {f"{double}.{index}": f"decoder.ups.{level}.{index}" for index in (0, 1)}
        layers |= _activated(f"{decoder}block_{name}.conv", f"decoder.blocks.{level}", depth)
    return layers | {f"{decoder}{head}": "head"}


def _activated(theirs: str, ours: str, depth: int = 1) -> dict[str, str]:
    """Convolution, normalisation and activation, one after the other there, in threes here."""
    return {
        f"{theirs}.{3 * step + index}": f"{ours}.{step}.{index}"
        for step in range(depth)
        for index in (0, 1)
    }


def _unet_2d(decoder: str = "decoder") -> dict[str, str]:
    """SSL4MIS's names: `in_conv`, `down1` to `down4`, `up1` to `up4`."""
    blocks = {"encoder.in_conv.conv_conv": "encoder.stages.0"}
    ups = {}
    for level in range(1, LEVELS):
        blocks[f"encoder.down{level}.maxpool_conv.1.conv_conv"] = f"encoder.stages.{level}.1"
        blocks[f"{decoder}.up{level}.conv.conv_conv"] = f"decoder.blocks.{level - 1}"
        ups[f"{decoder}.up{level}.conv1x1"] = f"decoder.ups.{level - 1}.0"
    layers = {f"{a}.{index}": f"{b}.{index}" for a, b in blocks.items() for index in (0, 1, 4, 5)}
    return layers | ups | {f"{decoder}.out_conv": "head"}


def _unet_3d() -> dict[str, str]:
    """Names of Attention-Gated-Networks: `conv1` to `conv4`, `center`, `up_concat4` to 1."""
    blocks = {"conv1": "encoder.stages.0", "center": f"encoder.stages.{LEVELS - 1}.1"}
    for level in range(1, LEVELS):
        blocks[f"up_concat{LEVELS - level}.conv"] = f"decoder.blocks.{level - 1}"
        if level < LEVELS - 1:
            blocks[f"conv{level + 1}"] = f"encoder.stages.{level}.1"
    places = {"conv1.0": 0, "conv2.0": 3}
    layers = {f"{a}.{name}": f"{b}.{i}" for a, b in blocks.items() for name, i in places.items()}
    return layers | {"final": "head"}


OTHER_DECODERS = ("decoder2.", "decoder3.", "decoder4.")
CONTRAST_HEADS = ("projection_head.", "prediction_head.", "contrastive_class_selector_")
NAMINGS = (
    Naming(
        "the VNet of DTC, with a head for distances",
        *("vnet", 3, _vnet(head="out_conv2"), "out_conv2", ("block_one.conv.0", "out_conv2")),
        unused=("out_conv.",),
        sigmoid=True,
        intensities="stored",
    ),
    Naming(
        "the VNet of TraCoCo and UA-MT",
        *("vnet", 3, _vnet(), "out_conv", ("block_one.conv.0",)),
        namesake="UA-MT",
    ),
    Naming(
        "the VNet of MC-Net with its first decoder",
        *("vnet", 3, _vnet("encoder.", "decoder1."), "decoder1.out_conv"),
        ("encoder.block_one.conv.0", "decoder1.block_five_up.conv.0"),
        unused=OTHER_DECODERS,
        intensities="stored",
    ),
    Naming(
        "the VNet of BCP",
        *("vnet", 3, _vnet("encoder.", "decoder."), "decoder.out_conv"),
        ("encoder.block_one.conv.0", "decoder.block_five_up.conv.0"),
        unused=CONTRAST_HEADS,
        intensities="stored",
    ),
    Naming(
        "the 2D UNet of TraCoCo, SSL4MIS and BCP",
        *("unet", 2, _unet_2d(), "decoder.out_conv"),
        ("encoder.in_conv.conv_conv.0", "decoder.up1.conv.conv_conv.0"),
        unused=CONTRAST_HEADS,
    ),
    Naming(
        "the 2D UNet of MC-Net with its first decoder",
        *("unet", 2, _unet_2d("decoder1"), "decoder1.out_conv"),
        ("encoder.in_conv.conv_conv.0", "decoder1.up1.conv.conv_conv.0"),
        unused=OTHER_DECODERS,
    ),
    Naming(
        "the 3D UNet of TraCoCo and SSL4MIS",
        *("unet", 3, _unet_3d(), "final", ("conv1.conv1.0", "center.conv1.0")),
        namesake="SSL4MIS",
    ),
)
