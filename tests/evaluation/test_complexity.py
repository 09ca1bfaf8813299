"""The papers' figures to the printed digit, and small layers counted by hand."""

import time

import pytest
import torch
from torch import Tensor, nn

from tracoco.evaluation.complexity import complexity, seconds_a_window
from tracoco.networks import build_network
from tracoco.networks.transunet import Attention


@pytest.mark.parametrize(
    ("name", "crop", "classes", "parameters", "macs", "counted"),
    [
        ("vnet", (112, 112, 80), 2, 9_448_866, "40.11", "47.02"),
        ("vnet", (96, 96, 96), 2, 9_448_866, "35.36", "41.45"),
        ("unet", (96, 96, 96), 2, 5_884_050, "60.99", "61.14"),
        ("unet", (256, 256), 4, 1_813_764, "2.95", "2.97"),
    ],
)
def test_networks_of_the_paper(
    name: str, crop: tuple[int, ...], classes: int, parameters: int, macs: str, counted: str
) -> None:
    network = build_network(name, channels=1, classes=classes, dimensions=len(crop), filters=16)
    found = complexity(network, crop)
    assert found.parameters == parameters
    assert f"{found.macs / 1e9:.2f}" == macs
    assert f"{found.counted_macs / 1e9:.2f}" == counted


def counts(network: nn.Module, crop: tuple[int, ...], channels: int = 1) -> tuple[int, int]:
    found = complexity(network, crop, channels)
    return found.macs, found.counted_macs


def test_a_convolution_is_counted_by_what_each_output_sees() -> None:
    # 8 x 8 outputs of 3 channels, each of 2 * 9 inputs; in two groups of the halves.
    assert counts(nn.Conv2d(2, 3, 3, padding=1), (8, 8), 2) == (3456, 3456)
    assert counts(nn.Conv2d(2, 4, 3, padding=1, groups=2), (8, 8), 2) == (2304, 2304)


def test_a_transposed_convolution_is_counted_by_its_inputs_and_in_papers_by_its_outputs() -> None:
    # 4 x 4 inputs of 2 channels, each into 3 * 4 outputs: 384; papers: 8 x 8 x 3 outputs * 2 * 4.
    assert counts(nn.ConvTranspose2d(2, 3, 2, stride=2), (4, 4), 2) == (384, 1536)


def test_norms_count_in_papers_only() -> None:
    # 2 a value, of 4 * 8 * 8 values.
    norms = (nn.BatchNorm2d(4), nn.InstanceNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(8))
    for norm in norms:
        assert counts(norm, (8, 8), 4) == (0, 512)


def test_a_linear_layer() -> None:
    # 5 rows of 4 inputs to 3 outputs.
    assert counts(nn.Linear(4, 3), (5, 4)) == (60, 60)


class TorchAttention(nn.MultiheadAttention):
    def forward(self, crops: Tensor) -> Tensor:  # type: ignore[override]  # one input
        tokens = crops[:, 0]
        seen: Tensor = super().forward(tokens, tokens, tokens, need_weights=False)[0]
        return seen


class OurAttention(Attention):
    def forward(self, crops: Tensor) -> Tensor:
        return super().forward(crops[:, 0])


@pytest.mark.parametrize("attention", [OurAttention(8, 2), TorchAttention(8, 2, batch_first=True)])
def test_attention_counts_its_products(attention: nn.Module) -> None:
    # 5 tokens of 8: four projections 5 * 8 * 8; queries by keys and weights by values 5 * 5 * 8.
    assert complexity(attention, (5, 8)).macs == 4 * 320 + 2 * 200


def test_counting_leaves_the_network_alone() -> None:
    network = build_network("vnet", channels=1, classes=2, dimensions=3, filters=2)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    complexity(network, (32, 16, 16))
    assert network.training
    assert not any(part._forward_hooks for part in network.modules())
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


def test_a_window_of_one_coarsest_voxel_can_be_counted() -> None:
    network = build_network("vnet", channels=1, classes=2, dimensions=3, filters=2)
    assert complexity(network, (16, 16, 16)).macs > 0


class Slow(nn.Module):
    """Slow at first; notes how it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[bool, bool, torch.Size]] = []

    def forward(self, crops: Tensor) -> Tensor:
        time.sleep(0.01 if self.calls else 0.2)
        self.calls.append((self.training, torch.is_grad_enabled(), crops.shape))
        return crops


def test_the_time_of_a_window_is_the_best_of_a_few_as_at_test_time() -> None:
    network = Slow()
    seconds = seconds_a_window(network, (4, 5), torch.device("cpu"), channels=2)
    assert 0.01 <= seconds < 0.2
    assert len(network.calls) > 2
    assert set(network.calls) == {(False, False, torch.Size((1, 2, 4, 5)))}
    assert network.training
