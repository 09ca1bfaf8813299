"""A grid of two runs as a file, and runs with a result, without any training."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.studies.benchmark.grid import GridRun, RunSpec
from tracoco.studies.benchmark.results import RunResult
from tracoco.studies.benchmark.runner import Runner, Scoring

TEXT = """
title: Balls
datasets:
  balls: {labelled: [2]}
rows:
  supervised: {}
  cps: {}
set:
  network.filters: 4
  data.crop: [16, 16, 8]
  data.workers: 0
  training.save_every: 1
  training.steps: STEPS
"""
"""A grid that trains in seconds, once STEPS is a number."""

BROKEN = GridRun("balls", "broken", 2, 0, RunSpec(None, ("method.name=cps", "training.steps=7")))
SOUND = GridRun("balls", "sound", 2, 0, RunSpec(None, ("method.name=supervised",)))

RESULT = RunResult(
    dataset="balls",
    method="supervised",
    labelled=2,
    unlabelled=0,
    seed=0,
    steps=7,
    checkpoint="last",
    cases=2,
    dice=80.0,
    jaccard=70.0,
    asd=1.0,
    hd95=2.0,
    missed=0,
    units="mm",
    empty="missed",
    cct=False,
    watermark="",
    case_dice={"a": 75.0, "b": 85.0},
    seconds=14.0,
    seconds_a_step=2.0,
    seconds_a_case=1.0,
    versions={},
)


class Untrained(Runner):
    """Has the result of every run at once, but for those of cps, which fail."""

    failure: UserError = UserError("the loss is not finite")

    def folder(self, spec: RunSpec, seed: int) -> Path:
        return spec.folder(self.root, seed)

    def config(self, spec: RunSpec, seed: int) -> Config:
        return spec.config(seed)

    def result(self, spec: RunSpec, seed: int, scoring: Scoring) -> RunResult:  # noqa: ARG002 - as Runner has it
        if spec == BROKEN.spec:
            raise self.failure
        return RESULT


def untrained(root: Path) -> Untrained:
    return Untrained(Project(root), "balls", root / "benchmark")


def labelled_result(labelled: int, dice: list[float]) -> RunResult:
    """A result with so many labels and the Dice of its cases a, b and so on."""
    cases = {chr(ord("a") + index): value for index, value in enumerate(dice)}
    return replace(RESULT, labelled=labelled, dice=fmean(dice), case_dice=cases)
