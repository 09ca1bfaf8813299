"""Bring runs to their end, whatever state they are in, and test them."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from tracoco.config import Config
from tracoco.errors import Stopped
from tracoco.evaluation.evaluate import evaluate_predictions, score_predictions
from tracoco.evaluation.scores import Protocol
from tracoco.files import digest
from tracoco.inference.predict import predict_scans
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.runs.build import choose_device, run_method
from tracoco.runs.folder import RunFolder, load_checkpoint
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.results import (
    RunResult,
    peak_noted,
    read_result,
    run_result,
    write_result,
)
from tracoco.training.experiment import Experiment
from tracoco.training.train import train, with_recorded_steps


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which checkpoint of a run is tested, and by which conventions."""

    checkpoint: str = "last"
    protocol: Protocol = field(default_factory=Protocol)

    @property
    def name(self) -> str:
        """Of the result's file: two ways of scoring never share one."""
        parts = [self.checkpoint, self.protocol.units, self.protocol.empty]
        return "-".join([*parts, *(["cct"] if self.protocol.cct else [])])


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs of one project, in one folder."""

    project: Project
    dataset: str
    """What results call the data."""
    root: Path
    device: str = "auto"
    console: Console | None = None

    def folder(self, spec: RunSpec, seed: int) -> Path:
        """Where a run lies; with another split, plan or scan it is another run.

        So nothing that was learnt or measured on other cases can pass for it.
        """
        splits = self.project.load_splits().hash()
        plan = self.project.load_plan()
        values = plan.model_dump(mode="json", exclude={"class_names", *plan.as_always})
        data = digest([splits, values, Store(self.project.store_root).hash()])
        return spec.folder(self.root, seed, data, plan)

    def config(self, spec: RunSpec, seed: int) -> Config:
        """The settings of a run, with the plan's width, steps and precision where it has none."""
        return spec.config(seed, self.project.load_plan())

    def steps(self, spec: RunSpec, seed: int) -> int:
        """How many a run takes: by its settings or the plan, or as measured if it is timed."""
        folder = RunFolder(self.folder(spec, seed))
        return with_recorded_steps(self.config(spec, seed), folder).training.length

    def check(self, spec: RunSpec) -> None:
        """Build what the run is made of, so that a mistake is told before hours of training."""
        self.project.test_cases()
        experiment = Experiment.of(self.project, spec.config(0))
        run_method(experiment.config, experiment.plan)

    def trained(self, spec: RunSpec, seed: int) -> Path:
        """The run's folder, with all of its steps taken: now, earlier, or the rest of them now."""
        config, folder = spec.config(seed), self.folder(spec, seed)
        if steps_done(folder) < self.steps(spec, seed):
            with peak_noted(folder, choose_device(self.device)):
                stopped = train(
                    self.project,
                    config,
                    folder,
                    resume=True,
                    device=self.device,
                    console=self.console,
                ).signal
            if stopped:
                raise Stopped("stopped; the same command goes on from here", stopped)
        return folder

    def result(self, spec: RunSpec, seed: int, scoring: Scoring) -> RunResult:
        """The run's scores on the test cases; what is already there is not made again."""
        folder = self.folder(spec, seed)
        path = folder / "results" / f"{scoring.name}.json"
        if not path.exists():
            self.project.test_cases()  # their absence is better told now than after a training
            self.trained(spec, seed)
            # The scores beside the predictions, which reports show, are of them as they are.
            score = score_predictions if scoring.protocol.cct else evaluate_predictions
            predictions = self.predicted(folder, scoring.checkpoint)
            evaluation = score(predictions, self.project.root, scoring.protocol)
            result = run_result(folder, self.dataset, scoring.checkpoint, evaluation)
            write_result(path, result)
        return read_result(path)

    def predicted(self, folder: Path, checkpoint: str) -> Path:
        """The folder with a run's predictions of all test cases, missing ones are made now."""
        out = folder / "predictions" / checkpoint
        predict_scans(
            folder,
            self.project.root,
            out,
            checkpoint=checkpoint,
            device=self.device,
            console=self.console,
        )
        return out


def steps_done(folder: Path) -> int:
    """Steps that a run has taken, validated and saved; its log may be ahead after a kill."""
    path = RunFolder(folder).checkpoint("last")
    if not path.exists():
        return 0
    checkpoint = load_checkpoint(path)
    return int(checkpoint["step"]) - ("unvalidated" in checkpoint)
