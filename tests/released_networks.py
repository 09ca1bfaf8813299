"""Networks with the layer names of other repositories, written here from their descriptions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DOWN = {"one": 1, "two": 2, "three": 3, "four": 3, "five": 3}
UP = {"six": 3, "seven": 3, "eight": 2, "nine": 1}
"""Convolutions of each block of a VNet."""


class Chain(nn.Module):
    """Layers one after the other under the name `conv`."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Sequential(*layers)

    def forward(self, maps: Tensor) -> Tensor:
        found: Tensor = self.conv(maps)
        return found


def block(channels: int, width: int, depth: int) -> Chain:
    layers: list[nn.Module] = []
    for index in range(depth):
        layers.append(nn.Conv3d(width if index else channels, width, 3, padding=1))
        layers += [nn.BatchNorm3d(width), nn.ReLU()]
    return Chain(*layers)


def vnet_encoder(filters: int, channels: int = 1) -> nn.ModuleDict:
    parts = nn.ModuleDict()
    for level, (name, depth) in enumerate(DOWN.items()):
        width = filters * 2**level
        parts[f"block_{name}"] = block(width if level else channels, width, depth)
        if name != "five":
            halve = nn.Conv3d(width, 2 * width, 2, stride=2)
            parts[f"block_{name}_dw"] = Chain(halve, nn.BatchNorm3d(2 * width), nn.ReLU())
    return parts


def vnet_decoder(filters: int, classes: int = 2, up: str = "transpose") -> nn.ModuleDict:
    parts = nn.ModuleDict()
    for level, (below, (name, depth)) in enumerate(zip(["five", *UP], UP.items(), strict=False)):
        width = filters * 2 ** (3 - level)
        if up == "transpose":
            rise: list[nn.Module] = [nn.ConvTranspose3d(2 * width, width, 2, stride=2)]
        else:
            rise = [nn.Upsample(scale_factor=2), nn.Conv3d(2 * width, width, 3, padding=1)]
        parts[f"block_{below}_up"] = Chain(*rise, nn.BatchNorm3d(width), nn.ReLU())
        parts[f"block_{name}"] = block(width, width, depth)
    parts["out_conv"] = nn.Conv3d(filters, classes, 1)
    return parts


def vnet_features(encoder: nn.Module, decoder: nn.Module, crops: Tensor) -> Tensor:
    """The map below the head: skips are added."""
    skips = []
    for name in DOWN:
        crops = encoder.get_submodule(f"block_{name}")(crops)
        skips.append(crops)
        if name != "five":
            crops = encoder.get_submodule(f"block_{name}_dw")(crops)
    for below, name, skip in zip(["five", *UP], UP, skips[-2::-1], strict=False):
        risen = decoder.get_submodule(f"block_{below}_up")(crops)
        crops = decoder.get_submodule(f"block_{name}")(risen + skip)
    return crops


class PlainVNet(nn.Module):
    """All blocks side by side, as in UA-MT and in TraCoCo."""

    def __init__(self, filters: int, classes: int = 2) -> None:
        super().__init__()
        for parts in (vnet_encoder(filters), vnet_decoder(filters, classes)):
            for name, part in parts.items():
                self.add_module(name, part)

    def forward(self, crops: Tensor) -> Tensor:
        found: Tensor = self.get_submodule("out_conv")(vnet_features(self, self, crops))
        return found


class TwoHeads(PlainVNet):
    """DTC: `out_conv` gives distances, the sigmoid of `out_conv2` the foreground."""

    def __init__(self, filters: int, classes: int = 1) -> None:
        super().__init__(filters, classes)
        self.out_conv2 = nn.Conv3d(filters, classes, 1)

    def forward(self, crops: Tensor) -> Tensor:
        """The logits of two classes, of which the first is always 0."""
        found: Tensor = self.out_conv2(vnet_features(self, self, crops))
        return torch.cat([torch.zeros_like(found), found], dim=1)


class ManyDecoders(nn.Module):
    """MC-Net: one encoder, decoders that go up in other ways, of which the first predicts."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.encoder = vnet_encoder(filters)
        self.decoder1 = vnet_decoder(filters)
        self.decoder2 = vnet_decoder(filters, up="interpolate")
        self.decoder3 = vnet_decoder(filters, up="interpolate")

    def forward(self, crops: Tensor) -> Tensor:
        found: Tensor = self.decoder1["out_conv"](vnet_features(self.encoder, self.decoder1, crops))
        return found


class Contrasting(nn.Module):
    """BCP: encoder and decoder in folders of their own, and heads that only training needs."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.encoder, self.decoder = vnet_encoder(filters), vnet_decoder(filters)
        self.projection_head = nn.Sequential(nn.Linear(filters, 8), nn.BatchNorm1d(8))
        self.prediction_head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.contrastive_class_selector_0 = nn.Sequential(nn.Linear(8, 1))
        self.contrastive_class_selector_memory0 = nn.Sequential(nn.Linear(8, 1))

    def forward(self, crops: Tensor) -> Tensor:
        found: Tensor = self.decoder["out_conv"](vnet_features(self.encoder, self.decoder, crops))
        return found


class Pair3d(nn.Module):
    """Two convolutions, `conv1` and `conv2`, with instance normalisation."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        for name, inputs in (("conv1", channels), ("conv2", width)):
            layer = nn.Conv3d(inputs, width, 3, padding=1)
            self.add_module(name, nn.Sequential(layer, nn.InstanceNorm3d(width), nn.ReLU()))

    def forward(self, maps: Tensor) -> Tensor:
        found: Tensor = self.get_submodule("conv2")(self.get_submodule("conv1")(maps))
        return found


class PlainUNet3d(nn.Module):
    """The 3D UNet of SSL4MIS and of TraCoCo's BraTS experiments."""

    def __init__(self, filters: int, classes: int = 2) -> None:
        super().__init__()
        widths = [filters * 2**level for level in range(5)]
        for level, name in enumerate(("conv1", "conv2", "conv3", "conv4", "center")):
            self.add_module(name, Pair3d(widths[level - 1] if level else 1, widths[level]))
        for level in range(4):
            pair = Pair3d(widths[level] + widths[level + 1], widths[level])
            self.add_module(f"up_concat{level + 1}", nn.ModuleDict({"conv": pair}))
        self.final = nn.Conv3d(filters, classes, 1)

    def forward(self, crops: Tensor) -> Tensor:
        skips = []
        for level in range(4):
            skips.append(self.get_submodule(f"conv{level + 1}")(crops))
            crops = F.max_pool3d(skips[-1], 2)
        crops = self.get_submodule("center")(crops)
        for level in (3, 2, 1, 0):
            risen = F.interpolate(crops, scale_factor=2, mode="trilinear", align_corners=False)
            merged = torch.cat([skips[level], risen], dim=1)
            crops = self.get_submodule(f"up_concat{level + 1}.conv")(merged)
        found: Tensor = self.final(crops)
        return found


def pair_2d(channels: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (channels, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width)]
        layers += [nn.LeakyReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*layers[:-1])


def unet_decoder(widths: list[int], classes: int) -> nn.ModuleDict:
    parts = nn.ModuleDict()
    for level in range(1, 5):
        coarse, fine = widths[5 - level], widths[4 - level]
        block_ = nn.ModuleDict({"conv_conv": pair_2d(2 * fine, fine)})
        parts[f"up{level}"] = nn.ModuleDict({"conv1x1": nn.Conv2d(coarse, fine, 1), "conv": block_})
    parts["out_conv"] = nn.Conv2d(widths[0], classes, 3, padding=1)
    return parts


class PlainUNet2d(nn.Module):
    """The 2D UNet of SSL4MIS; with other decoders that of MC-Net, whose first one predicts."""

    def __init__(self, filters: int, classes: int = 4, decoders: int = 0) -> None:
        super().__init__()
        widths = [filters * 2**level for level in range(5)]
        first = nn.ModuleDict({"conv_conv": pair_2d(1, filters)})
        self.encoder = nn.ModuleDict({"in_conv": first})
        for level in range(1, 5):
            pair = nn.ModuleDict({"conv_conv": pair_2d(widths[level - 1], widths[level])})
            layers = nn.ModuleDict({"maxpool_conv": nn.ModuleList([nn.MaxPool2d(2), pair])})
            self.encoder[f"down{level}"] = layers
        self.first = "decoder1" if decoders else "decoder"
        for index in range(max(decoders, 1)):
            name = f"decoder{index + 1}" if decoders else "decoder"
            self.add_module(name, unet_decoder(widths, classes))

    def forward(self, crops: Tensor) -> Tensor:
        skips = [self.encoder.get_submodule("in_conv.conv_conv")(crops)]
        for level in range(1, 5):
            pair = self.encoder.get_submodule(f"down{level}.maxpool_conv.1.conv_conv")
            skips.append(pair(F.max_pool2d(skips[-1], 2)))
        decoder, crops = self.get_submodule(self.first), skips[-1]
        for level in range(1, 5):
            narrow = decoder.get_submodule(f"up{level}.conv1x1")(crops)
            risen = F.interpolate(narrow, scale_factor=2, mode="bilinear", align_corners=True)
            merged = torch.cat([skips[4 - level], risen], dim=1)
            crops = decoder.get_submodule(f"up{level}.conv.conv_conv")(merged)
        found: Tensor = decoder.get_submodule("out_conv")(crops)
        return found


def randomised(network: nn.Module, seed: int = 0) -> nn.Module:
    """The network at test time, with random weights and random running statistics."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.copy_(torch.rand(tensor.shape, generator=random) + 0.5)
            elif tensor.is_floating_point():
                spread = 1.5 / max(tensor[0].numel(), 1) ** 0.5 if tensor.dim() > 1 else 0.3
                values = spread * torch.randn(tensor.shape, generator=random)
                one = name.endswith("weight") and tensor.dim() == 1  # of a normalisation
                tensor.copy_(values + 1 if one else values)
    return network.eval()
