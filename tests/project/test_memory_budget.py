from typing import Literal

import pytest
import torch
from samples import make_batch, make_method
from torch import Tensor

from tracoco.config import FILTERS, NetworkConfig, Precision
from tracoco.networks import NETWORKS, build_network
from tracoco.presets import load_config
from tracoco.project.case_statistics import CaseStatistics
from tracoco.project.fingerprint import Fingerprint, LabelValue
from tracoco.project.machine import (
    KEPT_MAPS,
    TYPICAL_GPUS,
    Device,
    Machine,
    Step,
    passes,
    plan_gb,
    training_gb,
)
from tracoco.project.plan import Plan
from tracoco.project.planner import make_plan
from tracoco.training.step_cost import step_bytes


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
    network = build_network(name, channels=1, classes=2, dimensions=dimensions, filters=FILTERS)
    kept = kept_bytes(network.train(), torch.rand(1, 1, *size)) * passes() / 1e9
    strides = NETWORKS[name].own_strides(dimensions)
    assert kept / 2 < training_gb(Step(size, strides), name) < 2 * kept


Scan = tuple[tuple[int, int, int], tuple[float, float, float]]
TRUNK: Scan = ((340, 340, 220), (1, 1, 1))
THICK: Scan = ((340, 340, 20), (1, 1, 5))


def planned(
    device: Device, memory_gb: float, dimensions: Literal[2, 3], scan: Scan = TRUNK
) -> Plan:
    labels = (LabelValue(1, 1, 1), LabelValue(2, 1, 1))
    facts = Fingerprint((CaseStatistics("a", *scan, 1),), labels)
    return make_plan(facts, dimensions, memory_gb=memory_gb, device=device)


MACHINES: list[tuple[Device, float]] = [("cpu", 4.0), *(("gpu", gb) for gb in TYPICAL_GPUS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("normalisation", "decoder"),
    [("batch", "convolution"), ("instance", "pointwise"), ("batch", "pointwise")],
)
@pytest.mark.parametrize(("device", "memory_gb"), MACHINES)
@pytest.mark.parametrize(("dimensions", "scan"), [(3, TRUNK), (3, THICK), (2, TRUNK)])
def test_every_plan_is_within_a_fifth_of_its_count_and_fits(
    dimensions: Literal[2, 3],
    scan: Scan,
    device: Device,
    memory_gb: float,
    normalisation: str,
    decoder: str,
) -> None:
    plan = planned(device, memory_gb, dimensions, scan)
    network = [f"network.normalisation={normalisation}", f"network.decoder={decoder}"]
    config = load_config(None, network)
    counted = step_bytes(config, plan)
    assert counted is not None
    assert plan_gb(plan) == pytest.approx(counted / 1e9, rel=0.2)
    assert counted / 1e9 <= memory_gb


@pytest.mark.parametrize("decoder", ["convolution", "pointwise"])
@pytest.mark.parametrize(
    ("crop", "filters", "precision"),
    [((32, 32, 32), 16, "fp32"), ((32, 32, 32), 32, "bf16"), ((64, 64), 16, "bf16")],
)
def test_the_formula_is_within_a_fifth_of_the_count(
    crop: tuple[int, ...], filters: int, precision: Precision, decoder: str
) -> None:
    dimensions: Literal[2, 3] = 3 if len(crop) == 3 else 2
    sizes = {"crop": crop if dimensions == 3 else (1, *crop), "filters": filters}
    sizes |= {"batch": (2, 2), "precision": precision}
    case = CaseStatistics("a", (48, 48, 48), (1, 1, 1), 1)
    facts = Fingerprint((case,), (LabelValue(1, 1, 1),))
    plan = make_plan(facts, dimensions, overrides=sizes, memory_gb=4, device="cpu")
    network = ["network.normalisation=batch", f"network.decoder={decoder}"]
    counted = step_bytes(load_config(None, network), plan)
    assert counted is not None
    assert plan_gb(plan) == pytest.approx(counted / 1e9, rel=0.2)


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
    # A pass has 5 maps of 16 channels, 8 on coarser levels, and 5 of each of the 2 classes.
    # Weights: 2 networks x 6 x 4 bytes x 27 x (32^2 + 64^2 + 128^2 down, 32^2 + 64^2 up).
    weights = 48 * 27 * (21504 + 5120)
    voxels = 64**3 * 20 * 4
    three = voxels * (16 * (5 + 8 * (1 / 4 + 1 / 16 + 1 / 64)) + 10) + weights
    cube = (64, 64, 64)
    assert training_gb(Step(cube)) == pytest.approx(three / 1e9)
    assert training_gb(Step(cube, ((2, 2, 2),) * 3)) == pytest.approx(three / 1e9)
    # One level: 2/8 at half the voxels an axis. An axis that is not halved leaves more.
    one = voxels * (16 * (5 + 8 / 4) + 10) + 48 * 27 * 1024
    assert training_gb(Step(cube, ((2, 2, 2),))) == pytest.approx(one / 1e9)
    thick = voxels * (16 * (5 + 8 * (2 / 4 + 4 / 32)) + 10) + 48 * 27 * (1024 + 4096 + 1024)
    assert training_gb(Step(cube, ((2, 2, 1), (2, 2, 2)))) == pytest.approx(thick / 1e9)
    # 2 x (2 x (4 + 4) + 4) = 40 passes.
    twice = 2 * three - weights
    assert training_gb(Step(cube, batch=(4, 4))) == pytest.approx(twice / 1e9)
    # In bf16 a network's maps take half, those of the losses as much as before.
    half = voxels * (8 * (5 + 8 * (1 / 4 + 1 / 16 + 1 / 64)) + 10) + weights
    assert training_gb(Step(cube, precision="bf16")) == pytest.approx(half / 1e9)
    more = three + voxels * 3 * 5
    assert training_gb(Step(cube, classes=5)) == pytest.approx(more / 1e9)


def test_a_plan_of_before_takes_what_it_took() -> None:
    plan = planned("cpu", 4, 3)
    old = plan.model_copy(update={"filters": None, "precision": None})
    assert plan_gb(old) == plan_gb(plan)
    # The plan's width is light-unet's alone.
    wide = plan.model_copy(update={"filters": 48})
    assert plan_gb(wide) > plan_gb(plan)
    assert plan_gb(wide, "vnet") == plan_gb(plan, "vnet")


def test_every_network_of_the_table_exists() -> None:
    assert KEPT_MAPS.keys() <= NETWORKS.keys()
    assert NetworkConfig().name in KEPT_MAPS


def test_a_gpu_is_not_filled_to_the_brim() -> None:
    assert Machine("gpu", 80).budget_gb == 68
    assert Machine("cpu", 6).budget_gb == 6
