"""What a network costs: weights, multiply-accumulates and seconds for one window."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.utils.flop_counter import FlopCounterMode

from tracoco.config import Config
from tracoco.methods.method import evaluating
from tracoco.networks.dry_run import without_values
from tracoco.project.plan import Plan
from tracoco.runs.build import run_crop, run_method

NORMS = (_BatchNorm, _InstanceNorm, nn.GroupNorm, nn.LayerNorm)
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Complexity:
    """The size of a network, and the work that one window is for it."""

    parameters: int
    macs: int
    """Multiply-accumulates of every convolution and matrix product, attention among them."""
    counted_macs: int
    """As the papers count them, with the package thop: layer by layer, two for each value of a
    normalisation, and a transposed convolution as if each output saw the whole kernel, which is
    8 times too many in 3D at stride 2. Products outside a layer (attention's) are left out."""


def complexity(network: nn.Module, crop: Sequence[int], channels: int = 1) -> Complexity:
    """Count the work for one window of this size; nothing is computed."""
    shapes = without_values(network).eval()
    counted: list[int] = []

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        counted.append(_counted_macs(module, inputs[0], output))

    for module in shapes.modules():
        if isinstance(module, (_ConvNd, nn.Linear, *NORMS)):
            module.register_forward_hook(count)
    with torch.no_grad(), FlopCounterMode(display=False) as flops:
        shapes(torch.empty(1, channels, *crop, device="meta"))
    return Complexity(
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        macs=flops.get_total_flops() // 2,  # it counts multiplication and addition apart
        counted_macs=sum(counted),
    )


class InferenceCounter:
    """Counts what methods predict with; what has been counted once is not counted again."""

    def __init__(self) -> None:
        self._by_settings: dict[str, Complexity] = {}
        self._by_layers: dict[str, Complexity] = {}

    def count(self, config: Config, plan: Plan) -> Complexity:
        """The cost of one crop of a run for the network that its method predicts with."""
        parts = (config.method, config.network, plan)
        key = " ".join([str(config.data.crop), *(part.model_dump_json() for part in parts)])
        if key not in self._by_settings:
            self._by_settings[key] = self._counted(config, plan)
        return self._by_settings[key]

    def _counted(self, config: Config, plan: Plan) -> Complexity:
        with torch.device("meta"):  # shapes alone: no memory, and no time to draw weights
            network = run_method(config, plan).inference_network()
        crop = run_crop(config, plan)[-plan.dimensions :]
        # Most methods predict with the plain network: the same layers do the same work.
        key = f"{crop} {network!r}"
        if key not in self._by_layers:
            self._by_layers[key] = complexity(network, crop, plan.channels)
        return self._by_layers[key]


def seconds_a_window(
    network: nn.Module, crop: Sequence[int], device: torch.device, channels: int = 1
) -> float:
    """Time of one window for a network on this device, the best of a few; a case takes many."""
    crops = torch.zeros(1, channels, *crop, device=device)
    seconds = []
    with evaluating(network):
        for _ in range(1 + ROUNDS):  # the first one also pays for what torch prepares
            start = time.perf_counter()
            network(crops).flatten()[0].item()  # to read a value is to wait for the device
            seconds.append(time.perf_counter() - start)
    return min(seconds)


def _counted_macs(module: nn.Module, inputs: Tensor, output: Tensor) -> int:
    if isinstance(module, _ConvNd):
        kernel = module.weight[0, 0].numel()
        return output.numel() * kernel * (module.in_channels // module.groups)
    if isinstance(module, nn.Linear):
        return output.numel() * module.in_features
    return 2 * inputs.numel()
