"""Run by `torchrun` with two processes: methods stay equal, and a stop on one stops both.

Arguments: a folder, and the names of methods; without names all methods.
"""

import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples import make_batch, make_method

from tracoco.config import Config, parse_config
from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.methods import METHODS, build_method
from tracoco.methods.method import Method, RunFacts
from tracoco.networks import build_network
from tracoco.processes import StopRequest
from tracoco.settings import MethodChoice
from tracoco.testing.two_ranks import digest, keep_equal
from tracoco.training import pseudo_label_monitor as unlabelled_weight
from tracoco.training.distributed import Process, joined_process
from tracoco.training.trainer import Trainer

OWN = (
    r"running_(mean|var)$|bank_|relations\.bank\.|separation\.(prototypes|held)$"
    r"|queues\.|chooser\.|difficulty\.|distribution\.|^threshold$"
)
"""What each process remembers of its own crops: BatchNorm's statistics, banks, class weights and
thresholds."""


def own_batch(process: Process, step: int) -> Batch:
    return make_batch(2, classes=3, seed=100 * step + process.rank)


def make_trainer(
    method: Method,
    process: Process,
    config: Config,
    folder: Path,
    fractions: dict[str, float] | None = None,
) -> Trainer:
    if process.rank == 1:  # other first weights: rank 0's must win
        with torch.no_grad():
            for parameter in method.parameters():
                parameter.zero_()
    return Trainer(method, config, folder, process, identity={}, labelled_fractions=fractions)


def transformer_pair() -> Method:
    """`cross-teaching` with its own second network, which has weights that nothing uses."""
    facts = RunFacts(3, 1, 2, total_steps=30, steps_per_epoch=1, unlabelled_batch=2)
    network = partial(
        build_network, channels=1, classes=3, dimensions=2, filters=4, crop=(16, 16), options={}
    )
    small = {"second_options": {"hidden_size": 12, "mlp_dim": 12, "num_heads": 2}}
    choice = MethodChoice(name="cross-teaching", **small)
    return build_method(choice, partial(network, name="light-unet"), facts)


def check_equal_state(process: Process, folder: Path, names: list[str]) -> None:
    with_transformer = ["cross-teaching with UNETR"] if find_spec("monai") else []
    for name in (*(names or METHODS), *with_transformer):
        method = make_method(name, 2, classes=3) if name in METHODS else transformer_pair()
        try:
            keep_equal(name, method, process, folder, partial(own_batch, process), OWN)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def check_recipe(process: Process, folder: Path) -> None:
    """Averaged weights and the weight of unlabelled crops are the same in all processes."""
    unlabelled_weight.CHECK_EVERY, unlabelled_weight.WINDOW = 2, 1
    unlabelled_weight.KNOWN_DICE, unlabelled_weight.ABSENT = 0.0, 0.0
    unlabelled_weight.DOUBTED, unlabelled_weight.TRUSTED = -2.0, -1.0
    unlabelled_weight.SETTLED, unlabelled_weight.AGREED = 2.0, 0.0
    unlabelled_weight.FORGOTTEN = 2.0
    training = {"steps": 8, "ema_decay": 0.5, "unlabelled_weight": "adaptive"}
    config = parse_config({"training": training, "optimizer": {"name": "adamw"}}, "test")
    method = make_method("tracoco", 2, classes=3, pseudo_labels="averaged")
    trainer = make_trainer(method, process, config, folder, {"a": 0.5, "b": 0.3, "c": 0.2})
    trainer.fit((own_batch(process, step) for step in range(8)), None, StopRequest())
    assert trainer.averaged
    assert trainer.unlabelled
    assert trainer.unlabelled.value > 0
    own = digest(trainer.unlabelled.state_dict()), digest(trainer.averaged.state_dict())
    found: list[tuple[str, str]] = [("", "")] * process.world_size
    dist.all_gather_object(found, own)
    assert len(set(found)) == 1


def check_unsure_process(process: Process, folder: Path) -> None:
    """Pseudo-labels that are sure in one process alone are judged by that one, and none waits."""
    unlabelled_weight.CHECK_EVERY = 2
    config = parse_config({"training": {"steps": 4, "unlabelled_weight": "adaptive"}}, "test")
    for name in ("fixmatch", "unimatch"):
        method = make_method(name, 2, classes=3, threshold=0.0 if process.rank == 1 else 1.0)
        trainer = make_trainer(method, process, config, folder, {"a": 0.5, "b": 0.3, "c": 0.2})
        trainer.fit((own_batch(process, step) for step in range(4)), None, StopRequest())
        assert trainer.unlabelled
        state = trainer.unlabelled.state_dict()
        found: list[Any] = [None] * process.world_size
        dist.all_gather_object(found, digest(state))
        assert len(set(found)) == 1, name
    assert process.mean_of_some([0.25, 0.75] if process.rank == 1 else []) == [0.25, 0.75]
    assert process.mean_of_some([]) == []


def check_stops(process: Process, folder: Path) -> None:
    config = parse_config({"training": {"steps": 9}}, "test")
    trainer = make_trainer(make_method("supervised", 2, classes=3), process, config, folder)
    request = StopRequest(signal=15 if process.rank == 1 else 0)
    result = trainer.fit((own_batch(process, step) for step in range(9)), None, request)
    assert (result.steps, result.signal) == (1, 15), result
    batch = own_batch(process, 0)
    if process.rank == 1:
        batch = replace(batch, first=replace(batch.first, values=batch.first.values * torch.nan))
    expected = r"not finite \(supervised nan\)" if process.rank == 1 else "loss of rank 1"
    with pytest.raises(UserError, match=expected):
        trainer.fit([batch], None, StopRequest())


if __name__ == "__main__":
    with joined_process("cpu") as joined:
        check_equal_state(joined, Path(sys.argv[1]), sys.argv[2:])
        check_recipe(joined, Path(sys.argv[1]))
        check_unsure_process(joined, Path(sys.argv[1]))
        check_stops(joined, Path(sys.argv[1]))
        Path(sys.argv[1], f"rank{joined.rank}").touch()
