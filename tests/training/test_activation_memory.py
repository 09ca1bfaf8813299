import torch
from torch import nn

from tracoco.training.step_cost import PeakMemory


def test_bytes_count_while_a_tensor_lives_and_the_peak_stays() -> None:
    with PeakMemory() as memory:
        first = memory.make(torch.empty, 1000)
        memory.count(first)
        second = first + 1
        third = second * 2
        assert memory.live_bytes == 3 * 4000
        del second
        assert memory.live_bytes == 2 * 4000
        view = third.reshape(10, 100)[2:]
        assert memory.live_bytes == 2 * 4000
        del third
        assert memory.live_bytes == 2 * 4000  # the view holds it
        del view
        assert memory.live_bytes == 4000
    assert memory.peak_bytes == 3 * 4000


def test_what_autograd_keeps_counts_until_the_backward_pass_and_weights_do_not() -> None:
    # [5, 10] in, two layers of 10 without bias: each sigmoid keeps its result, 5 * 10 floats. The
    # first result is also what the second layer keeps.
    layers = [nn.Linear(10, 10, bias=False), nn.Sigmoid()]
    network = nn.Sequential(*layers, nn.Linear(10, 10, bias=False), nn.Sigmoid())
    memory = PeakMemory()
    shell = memory.without_values(network)
    with memory:
        crops = memory.make(torch.empty, 5, 10)
        memory.count(crops)
        loss = shell(crops).sum()
        assert memory.live_bytes == (1 + 2) * 200 + 4
        loss.backward()
        del loss
        # The gradients of both weights are there, and all maps are gone.
        assert memory.live_bytes == 200 + 2 * 400
    assert all(weight.grad is None for weight in network.parameters())


def test_a_convolution_counts_with_copies_of_what_it_takes_and_gives() -> None:
    layer = nn.Conv2d(1, 2, 3, padding=1, bias=False)
    memory = PeakMemory()
    shell = memory.without_values(layer)
    with memory, torch.no_grad():
        crops = memory.make(torch.empty, 1, 1, 10, 10)
        memory.count(crops)
        shell(crops)
    # 400 in, 800 out, both twice; and the 18 weights, which the kernel rearranges too.
    assert memory.peak_bytes == 2 * (400 + 800) + 18 * 4


def test_half_precision_counts_half() -> None:
    layer = nn.Linear(10, 10, bias=False)
    memory = PeakMemory()
    shell = memory.without_values(layer)
    with memory, torch.no_grad():
        crops = memory.make(torch.empty, 1000, 10)
        memory.count(crops)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = shell(crops)
    assert result.dtype == torch.bfloat16
    assert memory.live_bytes == 40_000 + 20_000


def test_a_mask_lets_everything_through() -> None:
    with PeakMemory() as memory:
        values = memory.make(torch.empty, 6, 5, 3)
        mask = memory.make(torch.ones, 6, 5) > 0
        assert values[mask].shape == (30, 3)
        assert mask.nonzero().shape == (30, 2)
        assert len(list(mask.flatten().unique())) == 1
