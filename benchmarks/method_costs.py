"""What a step of each method costs beside `supervised`: `python -m benchmarks.method_costs`.

It is measured on the demo's phantoms with the demo's settings, past all ramps and first stages, and
with networks that have learnt a little: what a step computes may depend on how sure they are.
Nothing else should run on the machine meanwhile.
"""

import argparse
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.allocations import peak_allocation
from benchmarks.pass_counts import count_passes
from benchmarks.run import machine
from benchmarks.timing import best_of
from tracoco import methods
from tracoco.console import say
from tracoco.data.batch import Batch
from tracoco.data.source import batches
from tracoco.demo.run import VALIDATION, write_phantoms
from tracoco.files import write_json
from tracoco.methods import METHODS
from tracoco.methods.catalogue import MethodCost
from tracoco.networks.network import Network
from tracoco.presets import load_config
from tracoco.processes import StopRequest
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.trainer import Trainer

COSTS = Path(methods.__file__).with_name("costs.json")
"""The file of results."""
REFERENCE = "supervised"
CROP = (32, 32, 32)
"""A third more than the demo's: the transformer of `cross-teaching` needs axes of whole 16s."""
STEPS = 100_000
LATE = 90_000
"""A step at which every ramp and every first stage has ended."""
LEARNT = 150
"""Steps that networks have learnt from labels."""
ROUNDS = 8
SETTING = (
    f"Light UNet of 8 filters, crops of {' x '.join(map(str, CROP))}, 2 labelled and 2 unlabelled "
    "in a batch (`supervised` reads the labelled ones alone), past all ramps."
)
SPREAD = ["method.every=1", "method.inner_steps=1"]
OWN_SETTINGS = {"mc-caussl": SPREAD, "bcp-caussl": SPREAD}
"""Sixty steps of a search after every sixty steps are one a step, which the best of a few steps
would not see otherwise."""
Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Subject:
    """A method in training, and the batch that it is given."""

    trainer: Trainer
    batch: Batch

    @classmethod
    def of(cls, name: str, project: Project, weights: Weights) -> "Subject":
        """As a run would have it at a late step, with networks that have learnt."""
        changes = [f"method.name={name}", f"training.steps={STEPS}", f"data.crop={list(CROP)}"]
        changes += [f"training.save_every={STEPS}", *OWN_SETTINGS.get(name, [])]
        experiment = Experiment.of(project, load_config("demo", changes))
        process = Process(0, 1, torch.device("cpu"))
        method = experiment.method(process)
        for network in method.modules():
            if isinstance(network, Network):
                own = network.state_dict()
                fitting = {
                    key: value
                    for key, value in weights.items()
                    if key in own and own[key].shape == value.shape
                }
                network.load_state_dict(fitting, strict=False)
        trainer = Trainer(method, experiment.config, project.root, process, identity={})
        trainer.step = LATE if weights else 0
        (batch,) = batches(experiment.source(process), 0, 1, 0, pinned=False)
        if METHODS[name].pseudo_labels:  # of an earlier run, which there is none of
            count = len(batch.cases) - batch.labelled_count
            batch = replace(batch, pseudo_labels=batch.labels[:1].repeat(count, 1, 1, 1))
        return cls(trainer, batch)

    def step(self) -> None:
        """A whole step, but for the reading of its crops and its line in the log."""
        self.trainer.fit([self.batch], None, StopRequest())

    def peak_bytes(self) -> int:
        """Weights and momentum, and the most that a step has allocated at once besides."""
        peak = peak_allocation(self.step)
        method, states = self.trainer.method, self.trainer.optimizer.state.values()
        momentum = [value for state in states for value in state.values()]
        kept = (*method.parameters(), *method.buffers(), *momentum)
        return peak + sum(value.nbytes for value in kept if isinstance(value, Tensor))


def main() -> None:
    """Measure all methods and keep the results, or show those of some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=METHODS, help="nothing is written")
    only = parser.parse_args().only
    found = {}
    with tempfile.TemporaryDirectory() as work:
        project, weights = prepared(Path(work))
        for name in only or METHODS:
            began = time.perf_counter()
            found[name] = measured(name, project, weights)
            cost, taken = found[name], time.perf_counter() - began
            say(f"{name:20} time x {cost.time:<5} memory x {cost.memory:<5} {taken:3.0f} s")
    if not only:
        values = {name: asdict(cost) for name, cost in found.items()}
        write_json(COSTS, {"setting": SETTING, "machine": machine(), "methods": values})
        say(f"written to {COSTS}; next: python -m benchmarks.methods_page")


def prepared(work: Path) -> tuple[Project, Weights]:
    """The demo's project of seed 0, and weights of a network that has learnt from its labels."""
    phantoms = write_phantoms(work, seed=0)
    project = init_project(phantoms.data, work / "project", validation=VALIDATION, seed=0)
    prepare(project)
    learner = Subject.of(REFERENCE, project, {})
    for _ in range(LEARNT):
        learner.step()
    return project, learner.trainer.method.inference_network().state_dict()


def measured(name: str, project: Project, weights: Weights) -> MethodCost:
    """Both step in turns, so that both see the same machine."""
    reference, subject = (Subject.of(each, project, weights) for each in (REFERENCE, name))
    counts = count_passes(subject.trainer.method, prod(CROP), subject.step)
    usual, own = best_of(ROUNDS, reference.step, subject.step)
    return MethodCost(
        networks=counts.networks,
        averaged=counts.averaged,
        decoders=counts.decoders,
        passes=_short(counts.with_gradient),
        passes_without_gradient=_short(counts.without),
        time=1.0 if name == REFERENCE else _short(own / usual),
        memory=_short(subject.peak_bytes() / reference.peak_bytes()),
    )


def _short(value: float) -> float:
    return float(f"{value:.3g}")


if __name__ == "__main__":
    main()
