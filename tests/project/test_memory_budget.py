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
    strides = NETWORKS[name].own_strides(dimensions)
    assert kept / 2 < training_gb(size, strides, network=name) < 2 * kept


@pytest.mark.parametrize(
    ("size", "strides"),
    [
        ((64, 64, 12), ((2, 2, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2))),
        ((96, 96), ((2, 2),)),
        ((32, 32, 32), ((2, 2, 2),)),
    ],
)
def test_the_formula_holds_for_other_levels(
    size: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> None:
    network = build_network(
        "light-unet", channels=1, classes=2, dimensions=len(size), filters=16, strides=strides
    )
    kept = kept_bytes(network.train(), torch.rand(1, 1, *size)) * passes() / 1e9
    assert kept / 2 < training_gb(size, strides) < 2 * kept


@pytest.mark.parametrize(("batch", "expected"), [((2, 2), 20), ((1, 3), 22)])
def test_a_step_of_tracoco_makes_as_many_passes(batch: tuple[int, int], expected: int) -> None:
    method = make_method("tracoco")
    seen = 0

    def count(_: object, inputs: tuple[Tensor, ...]) -> None:
        nonlocal seen
        seen += len(inputs[0]) if torch.is_grad_enabled() else 0

    for network in method.trained_networks():
        network.register_forward_pre_hook(count)
    method(make_batch(labelled=batch[0], unlabelled=batch[1]), 1)
    assert passes(batch) == seen == expected


def test_memory_goes_with_the_voxels_of_each_level_and_the_batch() -> None:
    # 64^3 voxels x 16 filters x 6 maps x (1 + 1/4 + 1/16 + 1/64) x 20 passes x 4 bytes.
    three = 64**3 * 16 * 6 * 1.328125 * 20 * 4 / 1e9
    assert training_gb((64, 64, 64)) == pytest.approx(three)
    assert training_gb((64, 64, 64), ((2, 2, 2),) * 3) == pytest.approx(three)
    # One level: 1 + 2/8. An axis that is not halved leaves more: 1 + 2/4 + 4/32.
    assert training_gb((64, 64, 64), ((2, 2, 2),)) == pytest.approx(three * 1.25 / 1.328125)
    thick = training_gb((64, 64, 64), ((2, 2, 1), (2, 2, 2)))
    assert thick == pytest.approx(three * 1.625 / 1.328125)
    # 2 x (2 x (4 + 4) + 4) = 40 passes.
    assert training_gb((64, 64, 64), batch=(4, 4)) == pytest.approx(2 * three)
    # In 2D a level has half the maps of the one above: 1 + 1/2 + 1/4 + 1/8.
    assert training_gb((64, 64)) == pytest.approx(64**2 * 16 * 6 * 1.875 * 20 * 4 / 1e9)


def test_every_network_of_the_table_exists() -> None:
    assert KEPT_MAPS.keys() <= NETWORKS.keys()
    assert NetworkConfig().name in KEPT_MAPS


def test_the_machine_has_some_memory() -> None:
    assert 0.1 < machine_gb() < 10_000
