import pytest
import torch
from torch import Tensor, nn

from tracoco.networks.dry_run import without_values


def dry_run(network: nn.Module, shape: tuple[int, ...]) -> Tensor:
    output: Tensor = without_values(network)(torch.empty(shape, device="meta"))
    return output


def test_shapes_come_out_without_a_value_or_a_byte() -> None:
    # Crops of 4 TB: nothing may be computed or stored.
    network = nn.Sequential(nn.Conv3d(1, 2, 3, padding=1), nn.MaxPool3d(2))
    output = dry_run(network, (1, 1, 10_000, 10_000, 10_000))
    assert output.shape == (1, 2, 5_000, 5_000, 5_000)
    assert output.is_meta


def test_weights_statistics_mode_and_generator_stay_as_they_were() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout())
    before = {key: value.clone() for key, value in network.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    dry_run(network, (2, 1, 8, 8))
    assert torch.equal(torch.rand(1), expected)
    assert network.training
    for key, value in network.state_dict().items():
        assert value.device.type == "cpu"
        assert torch.equal(value, before[key]), key


def test_what_a_real_pass_refuses_is_refused() -> None:
    with pytest.raises(RuntimeError, match="channel"):
        dry_run(nn.Conv2d(2, 3, 3), (1, 1, 8, 8))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        dry_run(nn.BatchNorm2d(1), (1, 1, 1, 1))


def test_what_is_shared_in_a_network_is_shared_in_its_copy_and_left_alone() -> None:
    layer, other = nn.Linear(4, 4), nn.Linear(4, 4)
    other.weight = layer.weight
    network = nn.ModuleDict({"first": layer, "again": nn.Sequential(layer), "tied": other})
    copied = without_values(network)
    assert len(list(copied.parameters())) == 3
    assert all(parameter.is_meta for parameter in copied.parameters())
    assert copied.get_submodule("again.0") is copied.get_submodule("first")
    assert not any(parameter.is_meta for parameter in network.parameters())
    assert layer.weight is other.weight
