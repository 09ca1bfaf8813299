"""Run by `torchrun` with two processes: weights stay equal, and a stop on one stops both."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples import make_batch, make_method

from tracoco.config import Config, parse_config
from tracoco.data.batches import Batch
from tracoco.errors import UserError
from tracoco.methods import METHODS
from tracoco.training.signals import StopRequest
from tracoco.training.team import Team, joined_team
from tracoco.training.trainer import Trainer


def same_everywhere(trainer: Trainer, team: Team) -> bool:
    digest = hashlib.sha256()
    for parameter in trainer.method.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    found: list[str | None] = [None] * team.world_size
    dist.all_gather_object(found, digest.hexdigest())
    return len(set(found)) == 1


def own_batch(team: Team, step: int) -> Batch:
    return make_batch(seed=100 * step + team.rank)


def make_trainer(name: str, team: Team, config: Config, folder: Path) -> Trainer:
    method = make_method(name)
    if team.rank == 1:  # other first weights: rank 0's must win
        with torch.no_grad():
            for parameter in method.parameters():
                parameter.zero_()
    return Trainer(method, config, folder, team, identity={})


def check_equal_weights(team: Team, folder: Path) -> None:
    config = parse_config({"training": {"steps": 3}}, "test")
    for name in METHODS:
        trainer = make_trainer(name, team, config, folder)
        for step in range(3):
            trainer.fit([own_batch(team, step)], None, StopRequest())
            assert same_everywhere(trainer, team), f"{name}: weights differ after step {step}"


def check_stops(team: Team, folder: Path) -> None:
    config = parse_config({"training": {"steps": 9}}, "test")
    trainer = make_trainer("supervised", team, config, folder)
    request = StopRequest(signal=15 if team.rank == 1 else 0)
    result = trainer.fit((own_batch(team, step) for step in range(9)), None, request)
    assert (result.steps, result.signal) == (1, 15), result
    batch = own_batch(team, 0)
    if team.rank == 1:
        batch = replace(batch, first=replace(batch.first, values=batch.first.values * torch.nan))
    expected = r"not finite \(supervised nan\)" if team.rank == 1 else "loss of rank 1"
    with pytest.raises(UserError, match=expected):
        trainer.fit([batch], None, StopRequest())


if __name__ == "__main__":
    with joined_team("cpu") as joined:
        check_equal_weights(joined, Path(sys.argv[1]))
        check_stops(joined, Path(sys.argv[1]))
        Path(sys.argv[1], f"rank{joined.rank}").touch()
