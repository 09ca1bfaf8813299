"""What a step costs: passes counted by hand, and memory to the byte."""

import pytest
import torch
from benchmarks.allocations import peak_allocation
from benchmarks.method_costs import REFERENCE, measured, prepared
from benchmarks.pass_counts import PassCounts, count_passes
from samples import StandIn, make_batch, make_method
from torch import nn

from tracoco.methods.method import Method

LATE = 1000
SIZE = (16, 16, 16)


def counted(method: Method) -> PassCounts:
    batch = make_batch(size=SIZE)

    def step() -> None:
        torch.stack(list(method(batch, LATE).terms.values())).sum().backward()

    return count_passes(method, 16**3, step)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 4 crops through the student, 2 through its average.
        ("mean-teacher", PassCounts(1, 1, 1, 4, 2)),
        # And 8 more passes of the average.
        ("ua-mt", PassCounts(1, 1, 1, 4, 18)),
        # One encoder, two decoders: 4 x (1/2 + 1/2 + 1/2).
        ("mc-net", PassCounts(1, 0, 2, 6, 0)),
        # 4 crops encoded and 6 decoded, two strong views of 2 crops; 2 as at test time.
        ("unimatch", PassCounts(1, 0, 1, 9, 2)),
        # Two networks: 4 + 4 crops of pairs, 2 mixed ones; 2 as at test time.
        ("tracoco", PassCounts(2, 2, 2, 20, 4)),
    ],
)
def test_passes_of_whole_networks_and_of_halves_are_counted(
    name: str, expected: PassCounts
) -> None:
    assert counted(make_method(name)) == expected


def test_a_patch_counts_as_much_as_its_voxels() -> None:
    method = make_method("supervised")
    network = method.inference_network()
    patches = torch.rand(3, 1, 8, 8, 16)
    counts = count_passes(method, 16**3, lambda: network(patches).sum().backward())
    assert counts == PassCounts(1, 0, 1, 0.75, 0)


class Foreign(StandIn):
    """A method on a network that is not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Conv3d(1, 2, 1)

    def trained_networks(self) -> list[nn.Module]:
        return [self.network]


def test_a_network_without_our_parts_is_counted_as_a_whole() -> None:
    method = Foreign()
    crops = torch.rand(2, 1, *SIZE)

    def step() -> None:
        method.network(crops).sum().backward()
        with torch.no_grad():
            method.network(crops)

    assert count_passes(method, 16**3, step) == PassCounts(1, 0, 1, 2, 2)
    assert not method.network._forward_pre_hooks, "nothing is watched afterwards"


def test_the_peak_is_what_is_held_at_once() -> None:
    def work() -> None:
        first = torch.empty(1_000_000, dtype=torch.uint8)
        del first
        second = torch.empty(2_000_000, dtype=torch.uint8)
        third = torch.empty(500_000, dtype=torch.uint8)
        del second, third

    assert peak_allocation(work) == 2_500_000


@pytest.mark.slow
def test_supervised_costs_as_much_as_itself_and_a_teacher_costs_more(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    project, weights = prepared(tmp_path_factory.mktemp("phantoms"))
    itself = measured(REFERENCE, project, weights)
    assert (itself.time, itself.memory, itself.passes) == (1.0, 1.0, 2.0)
    teacher = measured("mean-teacher", project, weights)
    assert (teacher.networks, teacher.averaged) == (1, 1)
    assert (teacher.passes, teacher.passes_without_gradient) == (4.0, 2.0)
    assert teacher.time > 1.5
    assert 1.5 < teacher.memory < 3
