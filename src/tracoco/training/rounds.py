"""Self-training: a teacher learns from labels, and each student also from the round before it.

    OUT/self-train.json           what was asked for, and the weights of each finished round
    OUT/round-0/                  the run of the teacher
    OUT/round-0/pseudo_labels/    what it predicts for the unlabelled scans
    OUT/round-1/                  the run of the first student, and so on

Killed at any point, the same call with `resume` goes on exactly where it was.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console

from tracoco.config import Config, recorded_settings
from tracoco.console import counted, say
from tracoco.data.batch import IGNORED
from tracoco.data.pseudo_label_files import Label, Manifest, PseudoLabels
from tracoco.errors import UserError
from tracoco.files import content_hash, read_json, write_json
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.lock import only_writer, own_content
from tracoco.methods import method_row
from tracoco.methods.method import Method
from tracoco.processes import stop_on_signals
from tracoco.project.folder import Project
from tracoco.project.store import StoredCase
from tracoco.runs.folder import RunFolder, check_identity
from tracoco.text import count
from tracoco.training.experiment import Experiment
from tracoco.training.starting_weights import starting_weights
from tracoco.training.train import train

StudentStart = Literal["drawn", "previous"]
ABSENT = 0.1
"""A class with less than this part of its fraction of the labelled scans is all but absent."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What self-training does besides to train."""

    students: int = 2
    """Rounds after the teacher's."""
    threshold: float = 0.0
    """Probability below which a voxel of a pseudo-label does not count."""
    start: StudentStart = "drawn"
    """First weights of a student: drawn, or those of the round before."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.students < 1:
            raise UserError(f"--rounds {self.students} has no student; give 1 or more")
        if not 0 <= self.threshold < 1:
            raise UserError(f"--threshold {self.threshold} is no probability below 1")


@dataclass(frozen=True, slots=True)
class Reached:
    """How far self-training has come."""

    folder: Path
    """Of the last round that was trained."""
    steps: int
    signal: int = 0
    """What stopped it before its end, or 0."""
    labelling: bool = False
    """Whether it was stopped while that round predicted pseudo-labels."""


def self_train(  # noqa: PLR0913 - each is a choice of the user's, with a default
    project: Project,
    teacher: Config,
    student: Config,
    out: Path,
    rounds: Rounds,
    *,
    resume: bool = False,
    init_from: Path | None = None,
    init_map: Path | None = None,
    device: str = "auto",
    console: Console | None = None,
) -> Reached:
    """Train a teacher, then students that also learn from what the round before them predicts.

    Args:
        project: it is prepared.
        teacher: settings of the first round, of any method that predicts.
        student: settings of all others, of a method that learns from pseudo-labels.
        out: gets a folder for each round.
        rounds: how many, and what is made of pseudo-labels.
        resume: go on with what is there.
        init_from: starting weights of every round, but for students that start from the previous.
        init_map: names in `init_from`.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        console: where progress is shown; nowhere if not given.
    """
    _check_possible(teacher)
    learner = Experiment.of(project, student)
    started = [teacher] if rounds.start == "previous" else [teacher, student]
    origins = [_origin(project, config, init_from, init_map) for config in started]
    asked = _asked(teacher, learner, rounds) | {"starting weights": origins[0]}
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose another --out")
    with only_writer(out, "self-train"):
        record = _Record.opened(out, asked, resume=resume)
        folder, steps = out, 0
        for number in range(rounds.students + 1):
            before, folder = out / f"round-{number - 1}", out / f"round-{number}"
            known = record.steps_of(number, folder)
            if known is None:
                if console:
                    say(f"round {number} of {rounds.students}: {folder}")
                follows = number > 0 and rounds.start == "previous"
                result = train(
                    project,
                    student if number else teacher,
                    folder,
                    resume=True,  # whatever there is of it
                    init_from=before / "last.pt" if follows else init_from,
                    init_map=None if follows else init_map,
                    pseudo_labels=before / "pseudo_labels" if number else None,
                    device=device,
                    console=console,
                )
                if result.signal:
                    return Reached(folder, result.steps, result.signal)
                record, known = record.finished(number, folder, result.steps), result.steps
            steps = known
            if number < rounds.students:
                signal = label_scans(folder, learner, rounds.threshold, device, console)
                if signal:
                    return Reached(folder, steps, signal, labelling=True)
        return Reached(folder, steps)


def label_scans(
    run: Path, learner: Experiment, threshold: float, device: str, console: Console | None
) -> int:
    """Predict what a student will learn from; the signal that stopped it, or 0.

    Cases that are done already stay as they are.

    Args:
        run: of the round before; its folder gets the labels.
        learner: whose unlabelled cases are predicted, and no others.
        threshold: probability below which a voxel does not count.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        console: where progress is shown; nowhere if not given.
    """
    labels, classes = PseudoLabels(run / "pseudo_labels"), learner.plan.classes
    weights = content_hash(RunFolder(run).checkpoint("last"))
    manifest = labels.begin(weights, learner.store.hash(), threshold)
    ids = learner.unlabelled
    waiting = [id_ for id_ in ids if id_ not in manifest.cases or not labels.file(id_).is_file()]
    if not waiting:
        return 0
    predictor = Predictor.load(run, device=device)
    with (
        stop_on_signals() as stop,
        counted("predicting pseudo-labels", len(waiting), console) as on_case,
        ready_to_predict(predictor.method) as ready,
    ):
        for id_ in waiting:
            if stop.signal:
                return stop.signal
            label = predicted_label(predictor, ready, learner.store.case(id_), threshold)
            manifest = labels.add(manifest, id_, label, classes)
            on_case(id_)
    if console:
        for line in _class_lines(manifest, learner):
            say(line)
    return 0


def predicted_label(
    predictor: Predictor, ready: Method, case: StoredCase, threshold: float
) -> Label:
    """The likeliest class of each voxel of a prepared scan, `IGNORED` below the threshold."""
    volume = torch.from_numpy(np.array(case.image())).to(predictor.device)
    prediction = predict_volume(ready.predict, volume, *predictor.cover(volume.shape[1:]))
    probability, likeliest = prediction.max(dim=0)
    label = likeliest.to(torch.uint8).masked_fill_(probability < threshold, IGNORED)
    found: Label = label.cpu().numpy()
    return found


def _class_lines(manifest: Manifest, learner: Experiment) -> list[str]:
    """How much of each structure the pseudo-labels have, and which of them are all but lost."""
    known = list(learner.labelled_fractions.items())[1:]
    pairs = list(zip(known, manifest.class_fractions[1:], strict=True))
    parts = [f"{name} {100 * here:.2g} % ({100 * there:.2g} %)" for (name, there), here in pairs]
    ignored = "" if manifest.counted == 1 else f"; {100 * manifest.counted:.0f} % of voxels count"
    lines = [
        f"pseudo-labels of {count(len(manifest.cases), 'scan')} (in brackets, the labelled ones): "
        f"{', '.join(parts)}{ignored}"
    ]
    absent = [f"'{name}'" for (name, there), here in pairs if here < ABSENT * there]
    if absent:
        lines.append(
            f"warning: {', '.join(absent)} is all but absent from the pseudo-labels, which teach "
            "the next round that there is none; train the teacher longer, or with more labels"
        )
    return lines


def _check_possible(teacher: Config) -> None:
    """Refuse a teacher that predicts nothing, and several processes."""
    name = teacher.method.name
    if not method_row(name).alone:
        raise UserError(
            f"'{name}' cannot be the teacher of self-training, since one run of it predicts "
            "nothing; use --method supervised, or another one"
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("self-train runs in one process; start it without torchrun")


def _origin(
    project: Project, config: Config, init_from: Path | None, init_map: Path | None
) -> str | None:
    """Identity of the starting weights, once they are known to be for these settings."""
    new = RunFolder(Path(os.devnull) / "new")
    experiment = Experiment.of(project, config)
    found = starting_weights(new, init_from, experiment, resume=False, init_map=init_map)
    return found.identity if found else None


def _asked(teacher: Config, learner: Experiment, rounds: Rounds) -> dict[str, Any]:
    """All that the rounds depend on; only their number may change."""
    of_teacher, of_student = (recorded_settings(each) for each in (teacher, learner.config))
    return {
        # The common loss is not recorded.
        **dict.fromkeys(("loss settings of the teacher", "loss settings of students")),
        **{f"{group} settings of the teacher": values for group, values in of_teacher.items()},
        **{f"{group} settings of students": values for group, values in of_student.items()},
        "threshold": rounds.threshold,
        "student start": rounds.start,
        "splits": learner.splits.hash(),
        "plan": learner.plan.hash(),
        "store": learner.store.hash(),
    }


@dataclass(frozen=True, slots=True)
class _Record:
    """`self-train.json`: what was asked for, and which rounds are done."""

    file: Path
    asked: dict[str, Any]
    rounds: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By number: steps and hash of the last weights."""

    @classmethod
    def opened(cls, out: Path, asked: dict[str, Any], *, resume: bool) -> "_Record":
        """A new record in a new folder, or that of the training that goes on."""
        file = out / "self-train.json"
        if not file.exists():
            if own_content(out):
                raise UserError(f"{out} is in use and holds no self-training; choose another --out")
            record = cls(file, asked)
            record.write()
            return record
        if not resume:
            raise UserError(f"{out} already exists; add --resume, or choose another --out")
        found = read_json(file)
        check_identity(found["asked"], asked, file)
        return cls(file, asked, found["rounds"])

    def steps_of(self, number: int, folder: Path) -> int | None:
        """Steps of a finished round; None where there is something left to train."""
        known = self.rounds.get(str(number))
        if known is None:
            return None
        path = RunFolder(folder).checkpoint("last")
        if not path.is_file() or content_hash(path) != known["weights"]:
            raise UserError(
                f"{path} is not what this round ended with, and later rounds come from it; "
                "choose another --out"
            )
        return int(known["steps"])

    def finished(self, number: int, folder: Path, steps: int) -> "_Record":
        """The same with one more round, as it stands in the file."""
        weights = content_hash(RunFolder(folder).checkpoint("last"))
        done = {**self.rounds, str(number): {"steps": steps, "weights": weights}}
        record = replace(self, rounds=done)
        record.write()
        return record

    def write(self) -> None:
        """Replace the file."""
        write_json(self.file, {"asked": self.asked, "rounds": self.rounds})
