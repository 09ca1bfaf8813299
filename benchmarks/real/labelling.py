"""Does it matter which scans are labelled? Rounds of labelling by `tracoco next` and at random.

    python -m benchmarks.real.labelling DATA OUT                  # both data sets
    python -m benchmarks.real.labelling DATA OUT hippocampus --seeds 0 --steps 400 --round-steps 100

A simulation with scans whose labels are known: a project starts with two or three labels, and the
others are hidden. After a first training, five rounds follow. Each takes the labels of two scans,
chosen by `next` or drawn at random, trains from the run before, and scores the test cases. The
first training of a seed is shared by both ways of choosing, so that all that differs is the choice.

If interrupted, run the same command again: what is done is kept, and a training that was stopped is
resumed. Results are written to `benchmarks/real/labelling_rounds` after each round.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns, rmtree
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

import tracoco as tc
from benchmarks.real.collect import ROOT
from benchmarks.real.data_sets import DATA_SETS
from benchmarks.real.markdown import table
from benchmarks.real.measured import kept_in
from benchmarks.real.projects import make_real_project
from tracoco.console import say
from tracoco.errors import Stopped, UserError, did_you_mean
from tracoco.evaluation.bootstrap import Interval, paired_interval
from tracoco.files import read_json, write_json
from tracoco.labelling.rounds import has_begun, newest_run, open_round, read_rounds, score
from tracoco.project.folder import Project
from tracoco.project.splits import Splits, write_splits
from tracoco.scans.reader import SUFFIXES
from tracoco.settings import checked

KIND = "labelling_rounds"
START = {"hippocampus": 2, "la": 3}
"""Labels at the beginning, by data set."""
ROUNDS, EACH = 5, 2
"""Rounds, and labels of each."""
SEEDS = (0, 1, 2)
ROUND_STEPS = 500
"""Steps of a round; it starts from trained weights."""
Strategy = Literal["next", "random"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
TITLE = "Which scans to label next"


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The Dice of the test cases after a round; round 0 is the first training."""

    strategy: Strategy
    seed: int
    round: int
    labelled: int
    steps: int
    """Of this round."""
    added: tuple[str, ...]
    dice: dict[str, float | None]
    """In percent, by case."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """One data set, one seed, and how much may be trained."""

    base: Project
    """With all labels."""
    preset: str | None
    seed: int
    out: Path
    start: int
    rounds: int = ROUNDS
    each: int = EACH
    steps: int | None = None
    """Of the first training; those of the preset if None."""
    round_steps: int = ROUND_STEPS
    settings: tuple[str, ...] = ()
    """Further changes of settings, as `KEY=VALUE`."""

    def results(self, strategy: Strategy) -> list[RoundResult]:
        """All rounds, those that are done and those that are left; each is told when it is done."""
        project = self._project(strategy)
        found = [self._first(project, strategy)]
        while len(found) <= self.rounds:
            found.append(self._round(project, strategy, len(found)))
        return found

    def _project(self, strategy: Strategy) -> Project:
        """The project of a way of choosing, a copy of that in which the first run was trained."""
        project = Project(self.out / f"{strategy}-seed{self.seed}")
        if not project.exists:
            left_out = ignore_patterns("predictions", ".tracoco-*")
            half = project.root.with_name(f"{project.root.name}.part")
            rmtree(half, ignore_errors=True)
            copytree(self._begun().root, half, ignore=left_out)
            half.rename(project.root)
        return project

    def _begun(self) -> Project:
        """The project with few labels, and its first run."""
        project = Project(self.out / f"start-seed{self.seed}")
        if not project.exists:
            project.root.mkdir(parents=True, exist_ok=True)
            write_splits(project.splits_file, self._few_labels())
            for theirs, ours in zip(self.base.files, project.files, strict=True):
                if theirs.is_file() and ours not in (project.splits_file, project.cases_file):
                    copyfile(theirs, ours)
            copyfile(self.base.cases_file, project.cases_file)  # the last one: it makes a project
        tc.prepare(project, progress=False)
        words = [f"training.steps={self.steps}"] if self.steps else []
        run = tc.train(
            project,
            preset=self.preset,
            settings=[*words, *self.settings],
            seed=self.seed,
            out=project.runs_root / "start",
            resume=(project.runs_root / "start").exists(),
            device="cpu",
        )
        _check_ended(run)
        return project

    def _few_labels(self) -> Splits:
        """Labels of a few training cases, drawn with the seed; all others are hidden."""
        whole = self.base.load_splits()
        order = np.random.default_rng(self.seed).permutation(len(whole.labelled))
        chosen = [whole.labelled[index] for index in order[: self.start]]
        hidden = tuple(case for case in whole.labelled if case not in chosen)
        unlabelled = (*whole.unlabelled, *hidden)
        return Splits(tuple(chosen), unlabelled, (), whole.test, hidden)

    def _first(self, project: Project, strategy: Strategy) -> RoundResult:
        run = project.runs_root / "start"
        dice = score(project, run, "test", device="cpu")
        steps = tc.Run.load(run).settings.training.length
        return RoundResult(strategy, self.seed, 0, self.start, steps, (), dice)

    def _round(self, project: Project, strategy: Strategy, number: int) -> RoundResult:
        """One round: done already, stopped in the middle, or new."""
        done = {each.number: each for each in read_rounds(project)}.get(number)
        if done is None or not done.finished:
            labels = None
            if open_round(project) is None:
                labels = self._labels(project, self._chosen(project, strategy, number), number)
            words = [f"training.steps={self.round_steps}"]
            result = tc.update(
                project,
                labels=labels,
                train=True,
                settings=[] if done and has_begun(project, done) else words,
                device="cpu",
            )
            done = result.round
            if result.run:
                _check_ended(result.run)
        if done is None or done.after is None:
            raise UserError(f"round {number} of {project.root} was not scored")
        say(f"{project.root.name}: round {number} of {self.rounds}")
        after = dict(done.after)
        labelled = done.labelled
        return RoundResult(
            strategy, self.seed, number, labelled, self.round_steps, done.added, after
        )

    def _chosen(self, project: Project, strategy: Strategy, number: int) -> list[str]:
        """The scans that a person would be asked to label."""
        if strategy == "random":
            draw = np.random.default_rng([self.seed, number])
            hidden = sorted(project.load_splits().hidden)
            return [str(case) for case in draw.choice(hidden, self.each, replace=False)]
        run = newest_run(project)
        if run is None:
            raise UserError(f"{project.root} has no run")
        drafts = project.root / "drafts"
        chosen = tc.next_scans(project, run, count=self.each, out=drafts, device="cpu")
        return [row.choice.case for row in chosen.rows]

    def _labels(self, project: Project, cases: Sequence[str], number: int) -> Path:
        """A folder with the true labels of these scans."""
        folder = project.root / "drawn" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        for case in project.load_cases():
            if case.id in cases and case.label:
                name = case.label.name.lower()
                suffix = max((s for s in SUFFIXES if name.endswith(s)), key=len)
                copyfile(case.label, folder / f"{case.id}{suffix}")
        return folder


def _check_ended(run: tc.Run) -> None:
    if run.signal:
        raise Stopped("stopped; the same command goes on from here", run.signal)


def keep(root: Path, name: str, results: Sequence[RoundResult]) -> Path:
    """Write results in place of those of the same seed and way of choosing."""
    path = kept_in(root, KIND, name)
    anew = {(each.strategy, each.seed) for each in results}
    others = [each for each in read_results(root, name) if (each.strategy, each.seed) not in anew]
    rows = sorted([*others, *results], key=lambda each: (each.strategy, each.seed, each.round))
    write_json(path, {"rows": [asdict(each) for each in rows]})
    return path


@dataclass(frozen=True, slots=True)
class _File:
    rows: tuple[RoundResult, ...]


def read_results(root: Path, name: str) -> list[RoundResult]:
    """What was measured on a data set; nothing before that."""
    path = kept_in(root, KIND, name)
    return list(checked(_File, read_json(path), str(path)).rows) if path.exists() else []


Matrix = NDArray[np.float64]


def dice_after(results: Sequence[RoundResult], strategy: Strategy, number: int) -> Matrix | None:
    """Dice of each test case after a round, [seeds, cases]; None if a way of choosing lacks it."""
    found = {r.seed: r.dice for r in results if (r.strategy, r.round) == (strategy, number)}
    if not found:
        return None
    cases = sorted(next(iter(found.values())))
    return np.array([[found[seed][case] or 0.0 for case in cases] for seed in sorted(found)])


def section(root: Path, names: Sequence[str] = tuple(START)) -> str:
    """What came out, as Markdown; empty before anything was measured."""
    parts = []
    for name in names:
        results = read_results(root, name)
        shared = _of_both(results)
        if shared:
            parts.append(_of_data_set(name, shared))
    if not parts:
        return ""
    about = """Rounds of labelling, simulated with known labels: two scans a round, chosen by
`tracoco next` or drawn at random. Dice (%) of the test cases with the 95 % interval over seeds
and cases; a difference is significant where its interval leaves out 0.
"""
    return "\n".join([f"\n## {TITLE}\n", about, *parts])


def _of_both(results: Sequence[RoundResult]) -> list[RoundResult]:
    """Rounds of the seeds that both ways of choosing have gone through to the same round."""
    done: dict[int, list[set[int]]] = {}
    for seed in {each.seed for each in results}:
        done[seed] = [
            {r.round for r in results if (r.strategy, r.seed) == (strategy, seed)}
            for strategy in STRATEGIES
        ]
    last = max((max(first & second, default=-1) for first, second in done.values()), default=-1)
    whole = {seed for seed, sets in done.items() if all(last in rounds for rounds in sets)}
    return [each for each in results if each.seed in whole and each.round <= last]


def _of_data_set(name: str, results: Sequence[RoundResult]) -> str:
    rounds = sorted({each.round for each in results})
    seeds = len({each.seed for each in results})
    lines = []
    for number in rounds:
        ours, theirs = (dice_after(results, strategy, number) for strategy in STRATEGIES)
        if ours is None or theirs is None:
            continue
        labelled = next(each.labelled for each in results if each.round == number)
        cells = [_text(paired_interval(dice)) for dice in (ours, theirs)]
        difference = _text(paired_interval(ours - theirs), sign="+") if number else "the same run"
        lines.append([str(number), str(labelled), *cells, difference])
    head = ["round", "labels", "`next`", "at random", "difference"]
    title = f"{name}, {seeds} seeds" if seeds != 1 else f"{name}, 1 seed"
    return f"### {title}\n\n{table(head, lines)}"


def _text(interval: Interval, sign: str = "") -> str:
    low, high = (f"{value:{sign}.1f}" for value in (interval.low, interval.high))
    return f"{interval.mean:{sign}.1f} [{low}, {high}]"


def main() -> None:
    """Run the simulation, or go on with it."""
    parser = argparse.ArgumentParser(description="Simulate rounds of labelling.")
    parser.add_argument("data", type=Path, help="folder of the real data")
    parser.add_argument("out", type=Path, help="folder for the projects")
    parser.add_argument("only", nargs="*", help=f"of {', '.join(START)}; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, help="of the first training; the preset's by default")
    parser.add_argument("--round-steps", type=int, default=ROUND_STEPS, help="of each round")
    request = parser.parse_args()
    try:
        for name in request.only or START:
            run_data_set(name, request)
    except UserError as error:
        raise SystemExit(str(error)) from None


def run_data_set(name: str, request: Any) -> None:
    """All seeds and both ways of choosing on one data set."""
    if name not in START:
        raise UserError(f"there is no data set '{name}' here; {did_you_mean(name, START)}")
    base = make_real_project(name, request.data.absolute(), request.out / name)
    for seed in request.seeds:
        simulation = Simulation(
            base,
            DATA_SETS[name].preset,
            seed,
            request.out / "labelling" / name,
            START[name],
            rounds=request.rounds,
            steps=request.steps,
            round_steps=request.round_steps,
        )
        for strategy in STRATEGIES:
            path = keep(ROOT, name, simulation.results(strategy))
            say(f"{name}, seed {seed}, {strategy}: {path}")


if __name__ == "__main__":
    main()
