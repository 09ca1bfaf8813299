"""Every command that writes, on projects so small that each takes about a second."""

import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
from storms.children import Ended, killed_at_change, launch, run
from storms.states import State, state_of, varying_kinds

SHAPE = (16, 16, 16)
SETTINGS = (
    *("training.steps=6", "training.save_every=2", "training.validate_every=3"),
    *("network.filters=2", "data.crop=[16,16,16]", "data.workers=0", "training.precision=fp32"),
    *("data.labelled_batch=1", "data.unlabelled_batch=2"),
)
GRID = f"""
title: Two runs
datasets: {{small: {{labelled: [2]}}}}
rows: {{supervised: {{}}, cps: {{}}}}
set: {{{", ".join(setting.replace("=", ": ") for setting in SETTINGS)}}}
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command, what lies there before it, and what it leaves."""

    name: str
    words: tuple[str, ...]
    before: Path
    """A copy of the work folder before the command."""
    after: State
    varying: frozenset[str]
    """Kinds of values that are never the same twice, e.g. times."""
    seconds: float
    changes: int
    """Changes of the disk that Python is told of."""
    again: tuple[str, ...] = ()
    """Words that are added when the command is run again."""
    done: str = ""
    """Part of what the command says if all is there already, and it refuses to do it again."""


@dataclass(slots=True)
class Stage:
    """The work folder, which all commands see at one place, and copies of what it held."""

    root: Path

    @property
    def work(self) -> Path:
        """Where the commands work."""
        return self.root / "work"

    @property
    def log(self) -> Path:
        """What a command prints."""
        return self.root / "log.txt"

    def reset(self, before: Path) -> None:
        """Bring the work folder to an earlier state."""
        for entry in self.work.iterdir() if self.work.exists() else ():  # it may be a mount
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        shutil.copytree(before, self.work, dirs_exist_ok=True)

    def keep(self, name: str) -> Path:
        """A copy of the work folder as it is."""
        return Path(shutil.copytree(self.work, self.root / "kept" / name))

    def must(self, *words: str) -> Ended:
        """Run a command that cannot fail."""
        ended = run(words, self.log)
        if ended.code:
            raise RuntimeError(f"tracoco {' '.join(words)}: {ended.text[-800:]}")
        return ended

    def scenario(
        self,
        name: str,
        words: Sequence[str],
        before: Path,
        again: Sequence[str] = (),
        done: str = "",
    ) -> Scenario:
        """Run a command twice without disturbance, to know what it leaves and what varies."""
        states, count = [], self.root / "count"
        for _ in range(2):
            self.reset(before)
            began = time.monotonic()
            child = launch(words, self.log, killed_at_change(0, self.work, count))
            ended = child.wait()
            seconds = time.monotonic() - began
            if ended.code:
                raise RuntimeError(f"tracoco {' '.join(words)}: {ended.text[-800:]}")
            states.append(state_of(self.work))
        varying = frozenset(varying_kinds(*states))
        weights = [kind for kind in varying if ".json" not in kind and ".html" not in kind]
        if weights:
            raise RuntimeError(f"{name}: two undisturbed runs differ in {weights[:3]}")
        changes = count.stat().st_size
        return Scenario(
            name, tuple(words), before, states[1], varying, seconds, changes, tuple(again), done
        )


def write_scans(folder: Path, numbers: Sequence[int], labelled: int) -> None:
    """Bright cubes in noise; those with the lowest numbers have a label."""
    for number in numbers:
        random = np.random.default_rng(number)
        at = random.integers(3, 7, 3)
        label = np.zeros(SHAPE, np.uint8)
        label[tuple(slice(a, a + 6) for a in at)] = 1
        image = (100 * label + random.normal(50, 20, SHAPE)).astype(np.float32)
        arrays = {"images": image} | ({"labels": label} if number < labelled else {})
        for kind, array in arrays.items():
            path = folder / kind / f"case{number:03d}.nii.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            nib.save(nib.Nifti1Image(array, np.eye(4)), path)


def train_words(stage: Stage, out: str, *more: str) -> tuple[str, ...]:
    """A training of a few steps into a run folder."""
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    project = str(stage.work / "project")
    return ("train", project, "--out", str(stage.work / out), "--device", "cpu", *changes, *more)


def build_states(root: Path, wanted: Collection[str]) -> tuple[Stage, dict[str, Path]]:
    """The work folder, and copies of it: with scans, with a project, prepared, and so on.

    Runs are trained only if one of the wanted commands needs them; none given stands for all.
    """
    stage = Stage(root)
    work, project = stage.work, str(stage.work / "project")
    write_scans(work / "data", range(6), labelled=4)
    (work / "grid.yaml").write_text(GRID, encoding="utf-8")
    states = {"data": stage.keep("data")}
    stage.must(*init_words(stage))
    states["project"] = stage.keep("project")
    write_scans(work / "data", range(6, 8), labelled=4)
    states["grown"] = stage.keep("grown")
    stage.reset(states["project"])
    stage.must("prepare", project)
    states["prepared"] = stage.keep("prepared")
    if wanted and not {"predict", "evaluate", "report"} & set(wanted):
        return stage, states
    stage.must(*train_words(stage, "project/runs/a"))
    stage.must(*train_words(stage, "project/runs/b", "--seed", "1"))
    states["trained"] = stage.keep("trained")
    out = str(run_folder(stage, "a") / "predictions" / "test")
    stage.must("predict", str(run_folder(stage, "a")), project, out, "--device", "cpu")
    states["predicted"] = stage.keep("predicted")
    stage.must("evaluate", out, project)
    states["evaluated"] = stage.keep("evaluated")
    return stage, states


def build(stage: Stage, states: dict[str, Path], wanted: Collection[str]) -> dict[str, Scenario]:
    """The scenarios of these names, or all if none is given."""
    work, project, run_a = stage.work, str(stage.work / "project"), run_folder(stage, "a")
    out, init, resume = str(run_a / "predictions" / "test"), init_words(stage), ("--resume",)
    predict = ("predict", str(run_a), str(work / "data" / "images"), out, "--device", "cpu")
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    rounds = ("self-train", project, "--out", str(work / "rounds"), "--rounds", "1")
    grid = ("benchmark", str(work / "grid.yaml"), "--project", f"small={project}")
    worker = ("--results", str(work / "grid"), "--device", "cpu", "--worker")
    made: dict[str, tuple[Sequence[str], str, Sequence[str], str]] = {
        "init": (init, "data", (), "already"),
        "init --update": ((*init[:4], "--update"), "grown", (), ""),
        "prepare": (("prepare", project), "project", (), ""),
        "train": (train_words(stage, "run"), "prepared", resume, ""),
        "predict": (predict, "trained", (), ""),
        "evaluate": (("evaluate", out, project), "predicted", (), ""),
        "report": (("report", str(run_a)), "evaluated", (), ""),
        "self-train": ((*rounds, "--device", "cpu", *settings), "prepared", resume, ""),
        "benchmark": ((*grid, *worker), "prepared", (), ""),
    }
    return {
        name: stage.scenario(name, words, states[before], again, done)
        for name, (words, before, again, done) in made.items()
        if name in (wanted or made)
    }


def init_words(stage: Stage) -> tuple[str, ...]:
    """A new project."""
    where = (str(stage.work / "data"), "-o", str(stage.work / "project"))
    return ("init", *where, "--validation", "1", "--test", "1")


def run_folder(stage: Stage, name: str) -> Path:
    """A run of the project."""
    return stage.work / "project" / "runs" / name
