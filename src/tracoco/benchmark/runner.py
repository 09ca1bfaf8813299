"""Bring runs to their end, whatever state they are in, and test them."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console

from tracoco.benchmark.result import RunResult, read_result, write_result
from tracoco.benchmark.run_spec import RunSpec
from tracoco.errors import Stopped
from tracoco.evaluation.folders import evaluate_predictions, score_predictions
from tracoco.evaluation.scores import Protocol
from tracoco.experiment import Experiment, train
from tracoco.files import read_json
from tracoco.inference.components import remove_small_components
from tracoco.inference.predictions import predict_scans
from tracoco.project.digest import digest
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.scans.reader import read_label
from tracoco.training.build import run_method
from tracoco.training.checkpoint import load_checkpoint
from tracoco.training.run_folder import RunFolder, versions
from tracoco.training.run_log import read_log


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
        plan = self.project.load_plan().model_dump(mode="json", exclude={"class_names"})
        data = digest([splits, plan, Store(self.project.store_root).hash()])
        return spec.folder(self.root, seed, data)

    def check(self, spec: RunSpec) -> None:
        """Build what the run is made of, so that a mistake is told before hours of training."""
        self.project.test_cases()
        experiment = Experiment.of(self.project, spec.config(0))
        run_method(experiment.config, experiment.plan)

    def trained(self, spec: RunSpec, seed: int) -> Path:
        """The run's folder, with all of its steps taken: now, earlier, or the rest of them now."""
        config, folder = spec.config(seed), self.folder(spec, seed)
        if steps_done(folder) < config.training.steps:
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
        """The run's figures on the test cases; what is already there is not made again."""
        folder = self.folder(spec, seed)
        path = folder / "results" / f"{scoring.name}.json"
        if not path.exists():
            self.project.test_cases()  # their absence is better told now than after a training
            self.trained(spec, seed)
            # The scores beside the predictions, which reports show, are of them as they are.
            score = score_predictions if scoring.protocol.cct else evaluate_predictions
            predictions = self.predicted(folder, scoring.checkpoint)
            scores = score(predictions, self.project.root, scoring.protocol)
            write_result(path, self._result(folder, scoring, scores))
        return read_result(path)

    def predicted(self, folder: Path, checkpoint: str) -> Path:
        """The folder with a run's predictions of all test cases, made now if some are missing."""
        out = folder / "predictions" / checkpoint
        note = out / "predictions.json"
        wanted = {case.id for case in self.project.test_cases()}
        rows = read_json(note)["rows"] if note.exists() else []
        # A prediction has its seconds once it is written: before that the note only names it.
        if {row["case"] for row in rows if row["seconds"] is not None} != wanted:
            predict_scans(
                folder,
                self.project.root,
                out,
                checkpoint=checkpoint,
                device=self.device,
                console=self.console,
            )
        return out

    def _result(self, folder: Path, scoring: Scoring, scores: dict[str, Any]) -> RunResult:
        run = RunFolder(folder)
        config, splits, summary = run.config(), run.splits(), scores["summary"]
        log = read_log(run.log_file)
        rows = read_json(folder / "predictions" / scoring.checkpoint / "predictions.json")["rows"]
        facts = run.facts()
        return RunResult(
            dataset=self.dataset,
            method=config.method.name,
            labelled=len(splits.labelled),
            unlabelled=len(splits.unlabelled) if config.data.batch[1] else 0,
            seed=config.seed,
            steps=config.training.steps,
            checkpoint=scoring.checkpoint,
            **{key: summary[key] for key in ("cases", "dice", "jaccard", "asd", "hd95", "missed")},
            units=scoring.protocol.units,
            empty=scoring.protocol.empty,
            cct=scoring.protocol.cct,
            watermark=scores["watermark"],
            case_dice=_case_dice(scores["rows"]),
            seconds=sum(record["seconds"] for record in log),
            seconds_a_step=median(record["seconds"] for record in log),
            seconds_a_case=median(row["seconds"] for row in rows) + _cleaning(rows, scoring),
            versions={key: facts[key] for key in versions() if key in facts},
        )


def _case_dice(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Mean Dice of each case in percent; a structure that nobody has is not counted."""
    found = defaultdict(list)
    for row in rows:
        if row["dice"] is not None:
            found[row["case"]].append(row["dice"])
    return {case: fmean(values) for case, values in found.items()}


def _cleaning(rows: list[dict[str, Any]], scoring: Scoring) -> float:
    """Seconds that the removal of small components takes a case, if it is part of the scoring."""
    if not scoring.protocol.cct:
        return 0.0
    seconds = []
    for row in rows:
        label = read_label(Path(row["prediction"])).array
        began = time.perf_counter()
        remove_small_components(label)
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def steps_done(folder: Path) -> int:
    """Steps that a run has taken and saved; its log may be ahead of that after a kill."""
    path = RunFolder(folder).checkpoint("last")
    return int(load_checkpoint(path)["step"]) if path.exists() else 0
