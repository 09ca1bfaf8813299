from math import prod

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor

from tracoco.config import NetworkConfig
from tracoco.networks import NETWORKS
from tracoco.networks.network import build_network
from tracoco.project.memory_budget import (
    KEPT_MAPS,
    machine_gb,
    passes,
    training_gb,
    voxels_within,
)


def kept_bytes(network: torch.nn.Module, crops: Tensor) -> int:
    """What autograd keeps of one pass, weights apart."""
    kept: dict[int, tuple[int, Tensor]] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(crops)
    weights = sum(4 * parameter.numel() for parameter in network.parameters())
    return sum(size for size, _ in kept.values()) - weights


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("light-unet", (32, 32, 32)),
        ("vnet", (32, 32, 32)),
        ("unet", (32, 32, 32)),
        ("light-unet", (96, 96)),
        ("unet", (96, 96)),
    ],
)
def test_the_formula_is_within_a_factor_of_two_of_what_is_kept(
    name: str, size: tuple[int, ...]
) -> None:
    dimensions = len(size)
    filters = NetworkConfig().filters
    network = build_network(name, channels=1, classes=2, dimensions=dimensions, filters=filters)
    kept = kept_bytes(network.train(), torch.rand(1, 1, *size)) * passes() / 1e9
    assert kept / 2 < training_gb(prod(size), dimensions, name) < 2 * kept


def test_a_step_of_tracoco_makes_as_many_passes() -> None:
    method = make_method("tracoco")
    seen = 0

    def count(_: object, inputs: tuple[Tensor, ...]) -> None:
        nonlocal seen
        seen += len(inputs[0]) if torch.is_grad_enabled() else 0

    for network in method.trained_networks():
        network.register_forward_pre_hook(count)
    method(make_batch(labelled=2, unlabelled=2), 1)
    assert passes() == seen == 20


def test_memory_goes_with_the_voxels() -> None:
    # 64^3 voxels x 16 filters x 6 maps x (1 + 1/4 + 1/16 + 1/64) x 20 passes x 4 bytes.
    assert training_gb(64**3, 3) == pytest.approx(64**3 * 16 * 6 * 1.328125 * 20 * 4 / 1e9)
    for dimensions in (2, 3):
        assert training_gb(voxels_within(2.0, dimensions), dimensions) == pytest.approx(2, rel=1e-3)


def test_every_network_of_the_table_exists() -> None:
    assert KEPT_MAPS.keys() <= NETWORKS.keys()
    assert NetworkConfig().name in KEPT_MAPS


def test_the_machine_has_some_memory() -> None:
    assert 0.1 < machine_gb() < 10_000
