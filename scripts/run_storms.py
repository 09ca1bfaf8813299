"""Kill, interrupt, starve and confuse every command, and see that nothing is lost: `make storms`.

    python scripts/run_storms.py --seconds 1200 --seed 7

Prints one table; exits with 1 if a trial was not survived. The same seed draws the same trials,
though not at the same moments of the commands.
"""

import argparse
import logging
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from storms import bombs, disturbances, writers  # noqa: E402 - tests/ is on the path only now
from storms.mutate import FAILURES, Outcome, all_subjects, storm  # noqa: E402 - the same
from storms.scenarios import Stage, build, build_states  # noqa: E402 - the same
from storms.tally import Tally  # noqa: E402 - the same

import tracoco  # noqa: E402 - the variables come first

PARTS = {"kills": 0.35, "signals": 0.15, "full disk": 0.1, "writers": 0.25, "mutated": 0.15}
"""How much of the time each kind of storm has."""
KINDS = (*PARTS, "bombs")
LATE = ("torch._dynamo", "torch.utils.tensorboard")
"""Modules that torch imports when an optimizer is made, and that a log of curves needs."""
OUTCOMES = {
    Outcome.DIFFERENT: "silently wrong",
    Outcome.TRACEBACK: "traceback",
    Outcome.MEMORY: "traceback",
    Outcome.CRASH: "traceback",
    Outcome.HANG: "hang",
}

Trial = Callable[[random.Random], None]


def main() -> int:
    """Run storms for some time; 1 if anything was not survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1200, help="for all storms together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all choices")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="kinds of storms")
    parser.add_argument("--command", nargs="+", default=[], help="of these commands alone")
    given = parser.parse_args()
    print(f"storms for {given.seconds:.0f} s, seed {given.seed}", flush=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="storms-") as folder:
        began = time.monotonic()
        logging.disable()  # nibabel tells what it makes of a damaged header
        storms = dict(disturbing(Path(folder) / "stage", given.only, given.command, tally))
        seconds = given.seconds - (time.monotonic() - began)
        print(f"made ready in {time.monotonic() - began:.0f} s", flush=True)
        parts = [name for name in PARTS if name in given.only]
        for name in parts:
            share = seconds * PARTS[name] / sum(PARTS[part] for part in parts)
            if (
                name == "mutated"
            ):  # last: torch computes in this process, and must not before a fork
                mutate(Path(folder) / "files", given.seed, share, tally)
            else:
                in_turn(storms[name], random.Random(f"{given.seed} {name}"), share)  # noqa: S311 - no secret
            print(f"after {name}: {tally.table().splitlines()[-1]}", flush=True)
    print(tally.table())
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nlargest process: {peak:.0f} MB; seed {given.seed}")
    for failure in tally.failures:
        print(failure)
    return int(bool(tally.failures))


def disturbing(
    folder: Path, only: Collection[str], commands: Sequence[str], tally: Tally
) -> Iterator[tuple[str, list[Trial]]]:
    """The trials of every storm over commands; bombs, which are few, are tried at once."""
    if {*only} == {"mutated"}:
        return
    load_everything()
    stage, states = build_states(folder, commands)
    if "bombs" in only and not commands:
        stage.reset(states["trained"])
        bombs.explode(stage, folder / "bombs", tally)
    scenarios = build(stage, states, commands) if {*only} != {"bombs"} else {}
    kinds: dict[str, Callable[..., None]] = {
        "kills": disturbances.kill,
        "signals": disturbances.send_signal,
        "full disk": disturbances.fill_disk,
    }
    for name, do in kinds.items():
        possible = name != "full disk" or disturbances.can_mount(folder / "mount")
        every = list(scenarios.values()) if possible else []
        yield name, [_trial(do, stage, each, tally) for each in every]
    races = []
    if "writers" in only:
        races = writers.pairs(stage, states, scenarios, commands)
    yield "writers", [_trial(writers.race, stage, each, tally) for each in races]


def load_everything() -> None:
    """Import what commands import while they run, so that their processes start at once."""
    for name in dir(tracoco):
        getattr(tracoco, name)
    for module in LATE:
        with suppress(ImportError):
            import_module(module)


def _trial(do: Callable[..., None], stage: Stage, what: object, tally: Tally) -> Trial:
    return lambda draw: do(stage, what, draw, tally)


def in_turn(trials: Sequence[Trial], draw: random.Random, seconds: float) -> None:
    """One trial of each kind after the other until the time is over, and each at least once."""
    end, number = time.monotonic() + seconds, 0
    while trials and (number < len(trials) or time.monotonic() < end):
        trials[number % len(trials)](draw)
        number += 1


def mutate(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Read mutated files of every format, and of every file that the package writes."""
    end = time.monotonic() + seconds
    subjects = all_subjects(folder)
    scans = folder / "scans"
    kinds = {
        subject.name: f"mutated {'scans' if scans in subject.file.parents else 'package files'}"
        for subject in subjects
    }
    found = storm(subjects, seed, max(5.0, end - time.monotonic()))
    for name, counter in found.counts.items():
        read = sum(times for outcome, times in counter.items() if outcome not in FAILURES)
        tally.add(kinds[name], "survived", times=read)
    for failure in found.failures:
        detail = f"{failure.subject}, number {failure.number}: {failure.detail[-300:]}"
        tally.add(kinds[failure.subject], OUTCOMES[failure.outcome], detail)


if __name__ == "__main__":
    sys.exit(main())
