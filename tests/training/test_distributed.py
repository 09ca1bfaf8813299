import pytest
import torch

from tracoco.errors import UserError
from tracoco.runs.build import choose_device
from tracoco.training.distributed import Process, joined_process, let_train_fast


def test_alone_a_process_leads_and_shares_nothing() -> None:
    with joined_process("cpu") as process:
        assert (process.rank, process.world_size, process.leads) == (0, 1, True)
        module = torch.nn.Linear(2, 2)
        assert process.wrap(module) is module
        assert process.largest([3, 0]) == [3, 0]
        assert process.mean_of_some([3.0, 0.5]) == [3.0, 0.5]
        assert process.mean_of_some([]) == []


def test_only_rank_zero_leads() -> None:
    assert not Process(1, 2, torch.device("cpu")).leads


@pytest.mark.parametrize("name", ["tpu9", "cuda:77"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"'{name}'"):
        choose_device(name)


def test_auto_finds_something() -> None:
    assert choose_device("auto").type in {"cpu", "cuda", "mps"}


def test_the_clock_waits_for_a_gpu_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    assert Process(0, 1, torch.device("cpu")).clock() > 0
    assert waited == []
    assert Process(0, 1, torch.device("cuda:1")).clock() > 0
    assert waited == [torch.device("cuda:1")]


@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_a_gpu_is_told_to_be_fast_where_it_trains_and_not_before(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    told: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", told.append)
    let_train_fast(choose_device("cpu"))
    device = choose_device(name)
    assert device.type == "cuda"
    assert (told, torch.backends.cudnn.benchmark) == ([], False)
    let_train_fast(device)
    assert told == ["high"]
    assert torch.backends.cudnn.benchmark
