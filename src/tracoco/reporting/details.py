"""The bottom of the page: all settings, the data, versions, and the commands to go on with."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracoco.methods import METHODS
from tracoco.reporting.run_record import RunRecord
from tracoco.runs.folder import RunFolder
from tracoco.settings import by_dotted_name

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Command:
    """A line for a shell, and what it does."""

    about: str
    line: str


def settings(run: RunRecord) -> dict[str, Pairs]:
    """The resolved settings by group; those outside of any group come first."""
    values = run.config.model_dump(mode="json")
    groups = {name: value for name, value in values.items() if isinstance(value, dict)}
    alone = {name: value for name, value in values.items() if name not in groups}
    return {"run": _pairs(alone)} | {name: _pairs(value) for name, value in groups.items()}


def plan(run: RunRecord) -> Pairs:
    """How the scans were brought to one form."""
    return _pairs(run.plan.model_dump(mode="json"))


def splits(run: RunRecord) -> dict[str, list[str]]:
    """Ids of the cases of each part."""
    parts = {part: list(ids) for part, ids in run.splits.parts.items()}
    held_out = list(run.splits.held_out(run.config.data.fold))
    return parts | ({run.fold: held_out} if held_out else {})


def facts(run: RunRecord) -> Pairs:
    """Versions, hashes, and what else was true when the run began."""
    return _pairs(run.facts.to_json())


def segments(run: RunRecord) -> bool:
    """Whether the run predicts, or is there to start other runs from."""
    row = METHODS.get(run.config.method.name)
    return row is None or row.segments


def predict_commands(run: RunRecord) -> list[Command]:
    """How to make use of this run, once it has saved its weights."""
    folder, root = RunFolder(run.root), shlex.quote(str(run.root))
    line = f"tracoco predict {root} SCANS LABELS"
    if not folder.checkpoint("last").exists():
        return []
    if not segments(run):
        line = f"tracoco train PROJECT --method tracoco --init-from {root}"
        return [Command("Train a segmentation that starts from these weights", line)]
    found = [Command("Segment a scan or a folder of scans with the last weights", line)]
    if folder.checkpoint("best").exists():
        chosen_on = run.config.training.select_on
        about = f"The same with the weights that were best on the {chosen_on} cases"
        found.append(Command(about, f"{line} --checkpoint best"))
    return found


def score_commands(run: RunRecord) -> list[Command]:
    """How to get scores onto this page."""
    root = shlex.quote(str(run.root))
    out = shlex.quote(str(run.root / "predictions" / "test"))
    return [
        Command(
            "Segment the test scans into the run's folder", f"tracoco predict {root} SCANS {out}"
        ),
        Command("Score them against the true labels", f"tracoco evaluate {out} TRUTH"),
        Command("Write this page again", f"tracoco report {root}"),
    ]


def _pairs(values: Mapping[str, Any], prefix: str = "") -> Pairs:
    return [(name, _text(value)) for name, value in by_dotted_name(values, prefix)]


def _text(value: Any) -> str:
    """A value in as few characters as its reader needs."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == "":
        return "none"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
