"""Trials: two commands begin to write into one folder at the same instant."""

import random
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from storms.children import Child, Ended, launch
from storms.scenarios import Scenario, Stage, init_words, run_folder, train_words
from storms.states import differences, state_of
from storms.tally import Tally

SHARED = ("predict", "prepare", "init --update", "evaluate", "benchmark")
"""Commands that two may type alike: they share the work, or the second is refused."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two commands for one folder."""

    name: str
    before: Path
    first: Scenario
    second: Scenario
    """The same as the first if both are to do the same."""

    @property
    def alike(self) -> bool:
        """Whether both ask for the same result."""
        return self.first.words == self.second.words


def pairs(
    stage: Stage, states: dict[str, Path], scenarios: dict[str, Scenario], wanted: Collection[str]
) -> list[Pair]:
    """Every kind of two writers, or those of these commands."""
    out, images = str(stage.work / "labels"), str(stage.work / "data" / "images")
    first, second = (
        ("predict", str(run_folder(stage, name)), images, out, "--device", "cpu") for name in "ab"
    )
    init, train = init_words(stage), train_words(stage, "run")
    two: dict[str, tuple[str, Sequence[str], Sequence[str]]] = {
        "init": ("data", init, (*init, "--seed", "1")),
        "train": ("prepared", train, (*train, "--seed", "1")),
        "predict": ("trained", first, second),
    }
    found = [
        Pair(f"{name}, other options", *_both(stage, states[before], name, words))
        for name, (before, *words) in two.items()
        if name in (wanted or two)
    ]
    if "train" in (wanted or two):
        begun, resume = _begun(stage, states["prepared"]), (*train, "--resume")
        found.append(Pair("train --resume", *_both(stage, begun, "train --resume", [resume] * 2)))
    same = [each for name, each in scenarios.items() if name in SHARED]
    return found + [Pair(each.name, each.before, each, each) for each in same]


def _both(
    stage: Stage, before: Path, name: str, words: Sequence[Sequence[str]]
) -> tuple[Path, Scenario, Scenario]:
    first, second = (stage.scenario(name, each, before) for each in words)
    return before, first, second


def _begun(stage: Stage, prepared: Path) -> Path:
    """A run of which four steps are saved."""
    stage.reset(prepared)
    child = launch(train_words(stage, "run"), stage.log)
    log = stage.work / "run" / "log.jsonl"
    while not (log.exists() and log.read_text(encoding="utf-8").count("\n") >= 4):
        time.sleep(0.001)
    child.kill()
    child.wait()
    return stage.keep("begun")


def race(stage: Stage, pair: Pair, draw: random.Random, tally: Tally) -> None:
    """Let both begin within some milliseconds, and judge what they leave."""
    stage.reset(pair.before)
    logs = [stage.root / f"log{number}.txt" for number in range(2)]
    children: list[Child] = []
    for scenario, log in zip((pair.first, pair.second), logs, strict=True):
        children.append(launch(scenario.words, log))
        time.sleep(draw.choice((0.0, 0.0, 0.001, 0.01, 0.1)))
    ended = [child.wait() for child in children]
    tally.add(f"two writers: {pair.name}", *_judged(stage, pair, ended))


def _judged(stage: Stage, pair: Pair, ended: list[Ended]) -> tuple[str, str]:
    codes = [each.code for each in ended]
    for each in ended:
        if each.hung or each.traceback:
            return ("hang" if each.hung else "traceback"), each.text[-300:]
    done = [
        scenario
        for scenario, code in zip((pair.first, pair.second), codes, strict=True)
        if not code
    ]
    if not done:
        return "lost", f"both ended with {codes}: {ended[0].text[-200:]} / {ended[1].text[-200:]}"
    if len(done) == 2 and not pair.alike:
        return "lost", "both ended with 0, and one result can be there"
    try:
        found = state_of(stage.work)
    except Exception as error:  # noqa: BLE001 - a damaged file, whatever reads it
        return "lost", f"exit codes {codes}, then {error}"
    different = differences(done[0].after, found, set(done[0].varying))
    return (
        ("silently wrong", f"exit codes {codes}, {different[0]}") if different else ("survived", "")
    )
