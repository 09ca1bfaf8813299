"""Trials: a command is killed, stopped by a signal, or runs out of disk, and is then run again.

The second run must leave bitwise what one undisturbed run leaves. Otherwise work was lost (the
command fails, or something is missing) or, worse, the result is silently another one.
"""

import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from storms.children import Ended, killed_at_change, launch, run
from storms.scenarios import Scenario, Stage
from storms.states import differences, half_written, state_of
from storms.tally import Tally

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
FULL = "no space left on the disk"


def kill(stage: Stage, scenario: Scenario, draw: random.Random, tally: Tally) -> None:
    """Kill a command at a random moment, or just before one of its changes of the disk."""
    stage.reset(scenario.before)
    if draw.random() < 0.5:
        number = draw.randint(1, max(1, scenario.changes))
        how = f"killed before change {number} of {scenario.changes}"
        launch(scenario.words, stage.log, killed_at_change(number, stage.work)).wait()
    else:
        seconds = draw.uniform(0, scenario.seconds)
        how = f"killed after {seconds:.3f} s"
        child = launch(scenario.words, stage.log)
        time.sleep(seconds)
        child.kill()
        child.wait()
    judge_again(stage, scenario, f"kill {scenario.name}", how, tally)


def send_signal(stage: Stage, scenario: Scenario, draw: random.Random, tally: Tally) -> None:
    """Ask a command to stop at a random moment, by any of the signals of schedulers and shells."""
    stage.reset(scenario.before)
    name, seconds = draw.choice(SIGNALS), draw.uniform(0, scenario.seconds)
    how, kind = f"{name} after {seconds:.3f} s", f"signal {scenario.name}"
    child = launch(scenario.words, stage.log)
    time.sleep(seconds)
    child.kill(getattr(signal, name), group=draw.random() < 0.5)
    stopped = child.wait()
    if stopped.hung or stopped.traceback:
        tally.add(kind, "hang" if stopped.hung else "traceback", f"{how}: {stopped.text[-300:]}")
        return
    lost = unsaved_steps(stage, stopped)
    if scenario.name == "train" and lost:
        tally.add(kind, "lost", f"{how}: {lost}")
        return
    judge_again(stage, scenario, kind, how, tally)


def unsaved_steps(stage: Stage, stopped: Ended) -> str:
    """What a training that was asked to stop has logged and not saved."""
    run_folder = stage.work / "run"
    log = run_folder / "log.jsonl"
    logged = log.read_text(encoding="utf-8").count("\n") if log.exists() else 0
    told = re.search(r"(?:stopped after step|trained) (\d+)", stopped.text)
    if not logged or (told and int(told[1]) >= logged):
        return ""
    return f"exit code {stopped.code} with {logged} steps logged: {stopped.text[-200:]}"


def fill_disk(stage: Stage, scenario: Scenario, draw: random.Random, tally: Tally) -> None:
    """Run a command on a disk that is too small for it, then with room enough.

    The work folder is a `tmpfs` of some size; `can_mount` tells whether there may be one.
    """
    kind, room = f"full disk {scenario.name}", 4096 * draw.randint(0, 12)
    mount(stage.work)
    try:
        stage.reset(scenario.before)
        used = subprocess.run(["du", "-s", "-B1", stage.work], capture_output=True, check=True)
        size = int(used.stdout.split()[0]) + room
        subprocess.run(["mount", "-o", f"remount,size={size}", stage.work], check=True)
        small = run(scenario.words, stage.log)
        how = f"{room} bytes of room, exit code {small.code}"
        subprocess.run(["mount", "-o", "remount,size=1g", stage.work], check=True)
        if small.traceback or small.hung:
            tally.add(
                kind, "traceback" if small.traceback else "hang", f"{how}: {small.text[-400:]}"
            )
        elif small.code and FULL not in small.text:
            tally.add(kind, "lost", f"{how}, and not a word of the disk: {small.text[-200:]}")
        else:
            judge_again(stage, scenario, kind, how, tally)
    finally:
        subprocess.run(["umount", "-l", stage.work], check=True)


def mount(folder: Path) -> None:
    """Put an empty disk in memory over a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(folder)]
    subprocess.run(words, check=True, capture_output=True)


def can_mount(folder: Path) -> bool:
    """Whether this process may mount a disk in memory."""
    try:
        mount(folder)
    except (OSError, subprocess.CalledProcessError):
        return False
    subprocess.run(["umount", "-l", folder], check=True)
    return True


def judge_again(stage: Stage, scenario: Scenario, kind: str, how: str, tally: Tally) -> None:
    """Run the same command again, and compare what it leaves with what it should."""
    again = run((*scenario.words, *scenario.again), stage.log)
    complete = bool(scenario.done) and scenario.done in again.text
    if complete:  # the first command that opens the project puts its last files in place
        run(("plan", str(stage.work / "project")), stage.log)
    tally.counts.setdefault(kind, Counter())["left half-written"] += half_written(stage.work)
    if again.hung:
        tally.add(kind, "hang", f"{how}, then run again")
    elif again.traceback:
        tally.add(kind, "traceback", f"{how}, then {again.traceback}")
    elif again.code and not complete:
        tally.add(kind, "lost", f"{how}, then exit code {again.code}: {again.text[-300:]}")
    else:
        tally.add(kind, *compared(stage, scenario, how))


def compared(stage: Stage, scenario: Scenario, how: str) -> tuple[str, str]:
    """The outcome for the work folder as it is, and a word about it."""
    try:
        found = state_of(stage.work)
    except Exception as error:  # noqa: BLE001 - a damaged file, whatever reads it
        return "lost", f"{how}, then {error}"
    different = differences(scenario.after, found, set(scenario.varying))
    if not different:
        return "survived", ""
    missing = any(line.endswith("is missing") for line in different)
    return "lost" if missing else "silently wrong", f"{how}, then {different[0]}"
